package assay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	front "assay"
	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/internal/page"
)

// demoEdits are the edits that the demonstration scores: two edited pictures, each with two instructions.
var demoEdits = []struct{ source, output, instruction string }{
	{"coffee.png", "coffee_blur.png", "blur the picture"},
	{"coffee.png", "coffee_blur.png", "make the picture grey"},
	{"rocket.png", "rocket_grey.png", "make the picture grey"},
	{"rocket.png", "rocket_grey.png", "blur the picture"},
}

//go:embed demo.html
var demoPage string

var demoTemplate = page.Parse(demoPage, nil)

func newDemo() *cobra.Command {
	var out, addr string
	var serve bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Score example edits with the bundled small scorer, and show them",
		Long: `demo scores two edited pictures, each against the instruction that was followed and against another one.
It writes a page with the pictures, the scores and heat maps. Scorer and pictures are bundled with the program: nothing
is fetched. The scorer knows 14 families of edits at 64 x 64 pixels, and cannot judge others.

--serve starts score serve with that scorer instead: its page scores your own edits.`,
		Example: `  assay demo --out demo.html
  assay demo --serve --addr 127.0.0.1:8200`,
		RunE: func(c *cobra.Command, _ []string) error {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			files, err := findDemo(exe)
			if err != nil {
				return err
			}
			if serve {
				return serveDemo(c, files, addr)
			}
			return demonstrate(c, files, out)
		},
	}
	c.Flags().StringVar(&out, "out", "assay-demo.html", "page to write")
	c.Flags().BoolVar(&serve, "serve", false, "start the server with its page")
	c.Flags().StringVar(&addr, "addr", "127.0.0.1:8100", "address to listen on")
	cli.Writes(c, []string{".html"}, "out")
	cli.Needs(c, "serve", "addr")
	c.MarkFlagsMutuallyExclusive("serve", "out")
	return c
}

// demoFiles are the small scorer and a folder with the pictures of demoEdits.
type demoFiles struct{ scorer, pictures string }

func (f demoFiles) picture(name string) string { return filepath.Join(f.pictures, name) }

// findDemo looks in share/assay/demo of the folder, package or environment that a program is in, then in a checkout.
func findDemo(exe string) (demoFiles, error) {
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	up := filepath.Dir(filepath.Dir(exe)) // the root for bin/assay; lib for lib/assay/assay in a Debian package
	var places []demoFiles
	for _, root := range []string{up, filepath.Dir(up)} {
		share := filepath.Join(root, "share", "assay", "demo")
		places = append(places, demoFiles{filepath.Join(share, "tiny-scorer"), share})
	}
	places = append(places, demoFiles{filepath.Join(up, "backbones", "tiny-scorer"),
		filepath.Join(up, "testdata", "oracle", "images")})
	for _, f := range places {
		if _, err := os.Stat(f.scorer); err == nil {
			return f, nil
		}
	}
	return demoFiles{}, fmt.Errorf("the demo's scorer is not in %s: it comes with the wheel, the archive and the package",
		places[0].scorer)
}

// serveDemo runs score serve.
func serveDemo(c *cobra.Command, files demoFiles, addr string) error {
	serve, _, err := c.Root().Find([]string{"score", "serve"})
	if err != nil {
		return err
	}
	serve.SetContext(c.Context())
	if err := serve.ParseFlags([]string{"--scorer", files.scorer, "--addr", addr}); err != nil {
		return err
	}
	return serve.RunE(serve, nil)
}

// shown is a scored edit, with its pictures as data URLs.
type shown struct {
	Instruction string       `json:"instruction"`
	Value       float64      `json:"score"`
	Source      template.URL `json:"-"`
	Output      template.URL `json:"-"`
	Heat        template.URL `json:"-"`
}

// demonstrate scores the edits of the demonstration, prints the scores, and writes a page.
func demonstrate(c *cobra.Command, files demoFiles, out string) error {
	s, err := front.Open(c.Context(), files.scorer, front.Options{Device: "cpu", Warn: cli.Warner(c)})
	if err != nil {
		return err
	}
	defer s.Close()
	var edits []shown
	for _, d := range demoEdits {
		e, err := front.ReadEdit(c.Context(), files.picture(d.source), files.picture(d.output), d.instruction)
		if err != nil {
			return err
		}
		g, err := s.Gradient(c.Context(), e)
		if err != nil {
			return err
		}
		one := shown{Instruction: d.instruction, Value: g.Value}
		output, err := edit.Decode(e.Output)
		if err != nil {
			return err
		}
		source, err := edit.Decode(e.Sources[0])
		if err != nil {
			return err
		}
		for to, p := range map[*template.URL]*data.Picture{&one.Source: source, &one.Output: output,
			&one.Heat: g.Output.Heatmap(output)} {
			if *to, err = page.PNG(p.EncodePNG); err != nil {
				return err
			}
		}
		edits = append(edits, one)
	}
	_, best := s.Range()
	err = atomicfile.Write(out, func(w io.Writer) error {
		return demoTemplate.Execute(w, map[string]any{"Edits": edits, "Best": best})
	})
	if err != nil {
		return err
	}
	v := map[string]any{"scorer": files.scorer, "edits": edits, "page": out}
	return cli.Print(c, v, func(w io.Writer) {
		for i, e := range edits {
			fmt.Fprintf(w, "%7.4f  %s, asked to %q\n", e.Value, demoEdits[i].output, e.Instruction)
		}
		d := demoEdits[0]
		fmt.Fprintf(w, "\nThe page is %s. To repeat the first score, and to start the server with its page:\n"+
			"  assay score pair --scorer %s \\\n    --source %s \\\n    --edit %s \\\n    --instruction %q\n"+
			"  assay demo --serve\n", out, files.scorer, files.picture(d.source), files.picture(d.output), d.instruction)
	})
}
