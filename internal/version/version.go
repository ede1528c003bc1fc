// Package version holds the version of Assay.
package version

// Version is the version of the commands, which model cards and labels name.
const Version = "0.1.0"
