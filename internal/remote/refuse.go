package remote

// Refuse says what is wrong with a path of a configuration. The work, as "training", has files of this machine alone: a
// name on object storage would be a folder here. "" if nothing is.
func Refuse(work, path string) string {
	if !Is(path) {
		return ""
	}
	return path + ": " + work + " reads and writes files of this machine: copy it, or mount it"
}
