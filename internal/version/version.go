// Package version has the version of Assay, and the commit and build tags of the program.
package version

import "runtime/debug"

// Version is the version of the commands. It is written to model cards and labels.
const Version = "0.1.0"

// commit is set by the linker if the toolchain records none (tools/dist/program.sh).
var commit string

// Commit returns the commit that the program was built from, with -changed if the files differed from it; "unknown"
// if neither the linker nor the toolchain recorded one.
func Commit() string {
	if commit != "" {
		return commit
	}
	name, changed := setting("vcs.revision"), setting("vcs.modified") == "true"
	switch {
	case name == "":
		return "unknown"
	case changed:
		return name + "-changed"
	}
	return name
}

// Tags returns the build tags of the program, separated by commas.
func Tags() string { return setting("-tags") }

// setting returns a build setting recorded by the toolchain; "" if there is none.
func setting(key string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
