// Package version holds the version of Assay.
package version

import "runtime/debug"

// Version is the version of the commands, which model cards and labels name.
const Version = "0.1.0"

// commit is set by the linker where the toolchain records none (tools/dist/program.sh).
var commit string

// Commit returns the commit that the program was built from, with -changed where files differed from it; "unknown" if
// neither the linker nor the toolchain recorded one.
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

// setting returns what the toolchain recorded of the build; "" if nothing.
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
