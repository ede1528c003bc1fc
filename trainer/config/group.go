package config

func Short(s string) string {
	if len(s) > 80 {
		return s[:77] + "..."
	}
	return s
}
