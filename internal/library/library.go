// Package library lists the folders in which to look for shared libraries that are loaded at run time: ONNX Runtime
// and the picture decoders.
package library

import (
	"os"
	"path/filepath"
)

// Folders returns the folders to search, in order: next to the binary, in its Python environment, in the checkout, in
// LD_LIBRARY_PATH, and in the system library folders. packages are folders below site-packages that may contain the
// library.
func Folders(packages ...string) []string {
	var folders []string
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		d := filepath.Dir(exe)
		folders = append(folders, d, filepath.Join(d, "lib"), filepath.Join(d, "..", "lib"),
			filepath.Join(d, "..", "build", "lib"))
		folders = append(folders, wheels(d, packages)...)
	}
	for _, root := range checkouts() { // go run and go test put their binaries elsewhere
		folders = append(folders, filepath.Join(root, "build", "lib"))
	}
	for _, d := range filepath.SplitList(os.Getenv("LD_LIBRARY_PATH")) {
		if d != "" {
			folders = append(folders, d)
		}
	}
	return append(folders, "/usr/local/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64",
		"/usr/lib")
}

// wheels returns the folders of packages in the Python environment whose folder bin has the program.
func wheels(bin string, packages []string) (folders []string) {
	for _, p := range packages {
		found, _ := filepath.Glob(filepath.Join(bin, "..", "lib*", "python3*", "*-packages", p))
		folders = append(folders, found...)
	}
	return folders
}

// checkouts returns the Go modules that contain the working directory (lab/ is a module inside another). Only a
// folder with a go.mod counts, so that no library is loaded from a parent folder that is writable by others.
func checkouts() (roots []string) {
	d, err := os.Getwd()
	for err == nil {
		if _, e := os.Stat(filepath.Join(d, "go.mod")); e == nil {
			roots = append(roots, d)
		}
		if filepath.Dir(d) == d {
			break
		}
		d = filepath.Dir(d)
	}
	return roots
}
