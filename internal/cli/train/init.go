package train

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/strictyaml"
	"assay/model/fresh"
)

func init() { register(newInitCommand) }

// initOptions are the flags of train init.
type initOptions struct {
	out, file string
	texts     []string
	seed      uint64
	flags     fresh.Sizes // what the size flags say
}

func newInitCommand() *cobra.Command {
	o := initOptions{flags: shownSizes()}
	c := &cobra.Command{
		Use:   "init --out DIR --text FILE...",
		Short: "Make a small checkpoint with random weights: LLaVA-NeXT or a Qwen-VL",
		Long: `init makes a new backbone with random weights, and a byte-level BPE tokenizer trained on your text files, as
Hugging Face files that transformers also loads. Families: llava_next (Llama, CLIP tower, projector), qwen2_vl,
qwen2_5_vl (window attention in the tower), qwen3_vl (DeepStack). The same sizes, text and seed give the same bytes.
DIR appears complete or not at all.

Sizes come from the defaults, then the YAML file --sizes, then flags. Keys of the file are the flags' names with
underscores, and lists are lists: grid: [[1, 2], [2, 1]].`,
		Example: `  train init --out backbone --text instructions.txt
  train init --out backbone --text texts/*.txt --sizes small.yaml --layers 6 --seed 7 --json
  train init --family qwen2_5_vl --out backbone --text texts/*.txt --full-attention 2,5 --vision-layers 6
  train init --family qwen3_vl --out backbone --text texts/*.txt --deepstack 1,3`,
		Args: cobra.ArbitraryArgs, // of --text *.txt all but the first file end up here
		RunE: func(c *cobra.Command, args []string) error {
			o.texts = append(o.texts, args...)
			return o.run(c)
		},
	}
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "folder to make (must not exist, or be empty)")
	cli.Makes(c, "out")
	f.StringArrayVar(&o.texts, "text", nil, "UTF-8 text `FILE` the tokenizer learns from; may be given several times")
	f.StringVar(&o.file, "sizes", "", "YAML file of sizes")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the weights")
	sizeFlags(f, &o.flags)
	c.MarkFlagRequired("out")
	c.MarkFlagRequired("text")
	return c
}

// shownSizes returns the defaults that the help shows, taken from all families.
func shownSizes() fresh.Sizes {
	s, _ := fresh.Defaults(fresh.Qwen25VL)
	llava, _ := fresh.Defaults(fresh.LlavaNext)
	s.Family, s.ImageSize, s.Grid = llava.Family, llava.ImageSize, llava.Grid
	qwen3, _ := fresh.Defaults(fresh.Qwen3VL)
	s.HeadDim, s.PositionSide, s.Deepstack = qwen3.HeadDim, qwen3.PositionSide, qwen3.Deepstack
	return s
}

// sizeFlags adds a flag for every size.
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
		{"context", "context length, tokens", &s.Context},
		{"vision-hidden", "width of the vision tower", &s.VisionHidden},
		{"vision-layers", "layers of the vision tower; llava_next does not use the last one", &s.VisionLayers},
		{"vision-heads", "attention heads of the vision tower", &s.VisionHeads},
		{"vision-intermediate", "width inside the vision tower's MLPs", &s.VisionIntermediate},
		{"image-size", "height and width of a tile, pixels (llava_next)", &s.ImageSize},
		{"merge", "patches per token along each edge (Qwens)", &s.Merge},
		{"window", "edge of an attention window, pixels (qwen2_5_vl)", &s.Window},
		{"min-pixels", "minimum pixels of a picture: smaller ones are enlarged (Qwens)", &s.MinPixels},
		{"max-pixels", "maximum pixels of a picture: larger ones are reduced (Qwens)", &s.MaxPixels},
		{"head-dim", "width of the language model's heads (qwen3_vl)", &s.HeadDim},
		{"position-side", "edge of the vision tower's position table (qwen3_vl)", &s.PositionSide},
		{"patch", "height and width of a patch, pixels", &s.Patch},
		{"vocab", "maximum number of tokens, including special ones", &s.Vocab},
	} {
		f.IntVar(v.at, v.name, *v.at, v.usage)
	}
	f.StringVar(&s.Family, "family", s.Family, "architecture: "+strings.Join(fresh.Families(), ", "))
	f.IntSliceVar(&s.FullAttention, "full-attention", s.FullAttention,
		"vision layers with full attention, counted from 0 (qwen2_5_vl)")
	f.IntSliceVar(&s.Deepstack, "deepstack", s.Deepstack,
		"vision layers whose features enter the language model, counted from 0 (qwen3_vl)")
	f.IntSliceVar(&s.MRopeSection, "mrope-section", s.MRopeSection,
		"rotary frequencies for time, row, column; default 2 : 3 : 3, for qwen3_vl 6 : 5 : 5 (Qwens)")
	f.Float64Var(&s.RopeTheta, "rope-theta", s.RopeTheta, "base of the rotary embedding's wavelengths")
	f.Var((*gridFlag)(&s.Grid), "grid", "arrangements of tiles a picture may be cut into, ROWSxCOLUMNS,... (llava_next)")
}

func (o *initOptions) run(c *cobra.Command) error {
	sizes, err := o.read(c.Flags())
	if err != nil {
		return exit.Usage(err)
	}
	facts, err := fresh.Create(o.out, sizes, o.texts, o.seed)
	if err != nil {
		return err
	}
	return cli.Print(c, facts, func(w io.Writer) {
		fmt.Fprintf(w, "%s: %d parameters (language model %d, vision %d), %d tokens\n",
			facts.Folder, facts.Parameters, facts.TextParameters, facts.VisionParameters, facts.Vocab)
	})
}

// read combines defaults, file and flags, and checks the result.
func (o *initOptions) read(flags *pflag.FlagSet) (fresh.Sizes, error) {
	var text []byte
	named := o.flags
	if o.file != "" {
		var err error
		if text, err = os.ReadFile(o.file); err != nil {
			return fresh.Sizes{}, err
		}
		if !flags.Changed("family") {
			strictyaml.Decode(o.file, text, &named) // wrong keys are reported below
		}
	}
	sizes, err := fresh.Defaults(named.Family)
	if err != nil {
		return sizes, err
	}
	document := strictyaml.Decode(o.file, text, &sizes)
	if err := document.Err(); err != nil {
		return sizes, err
	}
	given := pflag.NewFlagSet("", pflag.ContinueOnError)
	sizeFlags(given, &sizes)
	flags.Visit(func(f *pflag.Flag) {
		if given.Lookup(f.Name) != nil {
			err = errors.Join(err, given.Set(f.Name, strings.Trim(f.Value.String(), "[]"))) // a list is set as a whole
		}
	})
	if err != nil {
		return sizes, err
	}
	var problems []error
	if err := sizes.Check(); err != nil {
		for _, p := range err.(interface{ Unwrap() []error }).Unwrap() {
			problem := p.(fresh.SizeError)
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
			return fmt.Errorf("%q is not ROWSxCOLUMNS, for example 1x2", word)
		}
		grid = append(grid, []int{rows, columns})
	}
	*g = grid
	return nil
}
