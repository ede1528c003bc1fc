// Package library says where shared libraries are looked for that are loaded at run time: ONNX Runtime, and those that
// decode pictures.
package library

import (
	"os"
	"path/filepath"
)

// Folders returns the folders to look in, in order: beside the binary, in its Python environment, in the checkout, in
// LD_LIBRARY_PATH, and where systems keep libraries. packages are folders below site-packages that may have the
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

// wheels returns the folders of packages in the Python environment that pip put the program's folder bin into.
func wheels(bin string, packages []string) (folders []string) {
	for _, p := range packages {
		found, _ := filepath.Glob(filepath.Join(bin, "..", "lib*", "python3*", "*-packages", p))
		folders = append(folders, found...)
	}
	return folders
}

// checkouts returns the folders of the modules around the working directory (lab/ is one inside another). Only a folder
// with a go.mod counts, so that no library is taken from a folder above that anyone may write to.
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
