package assay

import (
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/cli"
	"assay/internal/version"
	"assay/ort"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit, build tags, ONNX Runtime and JPEG decoder",
		RunE:  func(c *cobra.Command, _ []string) error { return printVersion(c) },
	}
}

// built describes how the program was built.
type built struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Features string `json:"features"` // build tags
	Runtime  string `json:"onnxruntime,omitempty"`
	JPEG     string `json:"jpeg"` // the decoder, and the reason if it is Go's
}

// printVersion prints the versions, and then fails if ONNX Runtime is missing.
func printVersion(c *cobra.Command) error {
	found, missing := ort.Version()
	v := built{version.Version, version.Commit(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, version.Tags(),
		found, data.JPEGText()}
	err := cli.Print(c, v, func(w io.Writer) {
		fmt.Fprintf(w, "assay %s, commit %s, %s %s\n", v.Version, v.Commit, v.Go, v.Platform)
		if v.Features != "" {
			fmt.Fprintln(w, "features", v.Features)
		}
		if missing == nil {
			fmt.Fprintln(w, "ONNX Runtime", v.Runtime)
		}
		fmt.Fprintln(w, "JPEG", v.JPEG)
	})
	if err != nil {
		return err
	}
	return missing
}
