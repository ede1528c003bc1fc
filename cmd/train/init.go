package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/cli"
	"assay/internal/strictyaml"
	"assay/model/fresh"
)

func init() { register(newInitCommand) }

// initOptions are the flags of train init.
type initOptions struct {
	out, file string
	texts     []string
	seed      uint64
	sizes     fresh.Sizes // of the flags
}

func newInitCommand() *cobra.Command {
	o := initOptions{sizes: fresh.Defaults()}
	c := &cobra.Command{
		Use:   "init --out DIR --text FILE...",
		Short: "Make a fresh small checkpoint of the LLaVA-NeXT architecture",
		Long: `init makes a new backbone: a Llama language model, a CLIP vision tower and a projector with random weights, and a
byte-level BPE tokenizer trained on the text files, all in Hugging Face files that transformers loads too.
The same sizes, text and seed give the same bytes. DIR appears complete or not at all.

Sizes come from the defaults, then from the YAML file, then from the flags. The file has the flags' names with
underscores as keys, and grid as a list: [[1, 2], [2, 1]].`,
		Example: `  train init --out backbone --text instructions.txt
  train init --out backbone --text texts/*.txt --sizes small.yaml --layers 6 --seed 7 --json`,
		Args: cobra.ArbitraryArgs, // --text *.txt leaves all but the first here
		RunE: func(c *cobra.Command, args []string) error {
			o.texts = append(o.texts, args...)
			return o.run(c)
		},
	}
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "folder to make (must not exist, or be empty)")
	f.StringArrayVar(&o.texts, "text", nil, "UTF-8 text files the tokenizer learns from")
	f.StringVar(&o.file, "sizes", "", "YAML file of sizes")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the weights")
	sizeFlags(f, &o.sizes)
	c.MarkFlagRequired("out")
	c.MarkFlagRequired("text")
	return c
}

// sizeFlags gives every size a flag.
func sizeFlags(f *pflag.FlagSet, s *fresh.Sizes) {
	for _, v := range []struct {
		name, usage string
		at          *int
	}{
		{"hidden", "width of the language model", &s.Hidden},
		{"layers", "layers of the language model", &s.Layers},
		{"heads", "attention heads of the language model", &s.Heads},
		{"kv-heads", "key and value heads, a divisor of --heads", &s.KVHeads},
		{"intermediate", "width inside the language model's MLPs", &s.Intermediate},
		{"context", "positions, tokens", &s.Context},
		{"vision-hidden", "width of the vision tower", &s.VisionHidden},
		{"vision-layers", "layers of the vision tower; the last is not used", &s.VisionLayers},
		{"vision-heads", "attention heads of the vision tower", &s.VisionHeads},
		{"vision-intermediate", "width inside the vision tower's MLPs", &s.VisionIntermediate},
		{"image-size", "height and width of a tile, pixels", &s.ImageSize},
		{"patch", "height and width of a patch, pixels", &s.Patch},
		{"vocab", "tokens at most, special ones included", &s.Vocab},
	} {
		f.IntVar(v.at, v.name, *v.at, v.usage)
	}
	f.Float64Var(&s.RopeTheta, "rope-theta", s.RopeTheta, "base of the rotary embedding's wavelengths")
	f.Var((*gridFlag)(&s.Grid), "grid", "arrangements of tiles a picture may be cut into, ROWSxCOLUMNS,...")
}

func (o *initOptions) run(c *cobra.Command) error {
	sizes, err := o.read(c.Flags())
	if err != nil {
		return cli.Usage(err)
	}
	facts, err := fresh.Create(o.out, sizes, o.texts, o.seed)
	if err != nil {
		return err
	}
	return cli.Print(c, facts, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d parameters (language model %d, vision tower %d), %d tokens, %d image tokens a tile\n",
			facts.Folder, facts.Parameters, facts.TextParameters, facts.VisionParameters, facts.Vocab, facts.TileTokens)
	})
}

// read puts defaults, file and flags together and checks the result.
func (o *initOptions) read(flags *pflag.FlagSet) (fresh.Sizes, error) {
	if o.file == "" {
		return o.sizes, o.sizes.Check()
	}
	text, err := os.ReadFile(o.file)
	if err != nil {
		return fresh.Sizes{}, err
	}
	sizes := fresh.Defaults()
	document := strictyaml.Decode(o.file, text, &sizes)
	if err := document.Err(); err != nil {
		return fresh.Sizes{}, err
	}
	given := pflag.NewFlagSet("", pflag.ContinueOnError)
	sizeFlags(given, &sizes)
	flags.Visit(func(f *pflag.Flag) {
		if given.Lookup(f.Name) != nil {
			err = given.Set(f.Name, f.Value.String())
		}
	})
	if err != nil {
		return fresh.Sizes{}, err
	}
	var problems []error
	if err := sizes.Check(); err != nil {
		for _, p := range err.(interface{ Unwrap() []error }).Unwrap() {
			problem := p.(fresh.Problem)
			if document.Has(problem.Key) && !flags.Changed(strings.ReplaceAll(problem.Key, "_", "-")) {
				document.Problem(problem.Key, "%s", problem.Text)
			} else {
				problems = append(problems, problem)
			}
		}
	}
	return sizes, errors.Join(append([]error{document.Err()}, problems...)...)
}

// gridFlag reads "1x2,2x1".
type gridFlag [][]int

func (g *gridFlag) Type() string { return "grid" }

func (g *gridFlag) String() string {
	words := make([]string, len(*g))
	for i, a := range *g {
		words[i] = fmt.Sprintf("%dx%d", a[0], a[1])
	}
	return strings.Join(words, ",")
}

func (g *gridFlag) Set(s string) error {
	var grid gridFlag
	for _, word := range strings.Split(s, ",") {
		var rows, columns int
		var rest string
		if n, _ := fmt.Sscanf(strings.TrimSpace(word), "%dx%d%s", &rows, &columns, &rest); n != 2 {
			return fmt.Errorf("%q is not ROWSxCOLUMNS, for instance 1x2", word)
		}
		grid = append(grid, []int{rows, columns})
	}
	*g = grid
	return nil
}
