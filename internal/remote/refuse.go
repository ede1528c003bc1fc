package remote

// Refuse returns what is wrong with a path in a configuration for work (such as "training") that only uses local
// files: a name on object storage would become a local folder. It returns "" if the path is local.
func Refuse(work, path string) string {
	if !Is(path) {
		return ""
	}
	return path + ": " + work + " only reads and writes local files: copy it, or mount it"
}
