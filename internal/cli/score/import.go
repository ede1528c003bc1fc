package score

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/encoders"
	"assay/internal/cli"
	"assay/internal/exit"
	_ "assay/model/families"
	"assay/released"
	"assay/t2i"
)

func init() { register(newImportCommand) }

func newImportCommand() *cobra.Command {
	var o released.Options
	var preprocessing string
	c := &cobra.Command{
		Use:   "import KIND --base DIR --weights DIR|FILE --prompts FILE|DIR --out SCORER",
		Short: "Make a scorer from a released judge or reward, or from a stock model's next token",
		Long: `import makes a scorer directory from a released judge, or from a stock model. The weights stay where they
are (--copy copies them). Kinds:

  editreward  EditReward: two prompts, two heads, mu and sigma; --config is the judge's YAML
  hpsv3       HPSv3: one picture and its text; runs without --source
  adiee       ADIEE's released weights, classifier or regressor; --base defaults to the weights' folder
  clip, pickscore, hpsv2, aesthetic, imagereward
              rewards of text-to-image models: they see the edit and the text, run without --source, and have pixel
              gradients; no --prompts. --base is the CLIP, or the folder of the tokenizer (hpsv2: a CLIP's; imagereward:
              BERT's), --weights the released file (.pt, .pth or .safetensors), rewritten as safetensors, --config
              open_clip's JSON or med_config.json
  choices     a stock model: the likelihoods of --choices as the next token after the question, and the expectation
              of their --values; each *.txt of a folder --prompts is a dimension, combined by --fusion

Third-party prompts are not part of Assay. --prompts is your copy of the judge's code (a Python file), a folder
(following.txt and quality.txt; picture.txt), or a text file. Prompts that differ from the published ones work with a
warning, but the score is not the published one (docs/judges.md).`,
		Example: `  score import editreward --base Qwen2.5-VL-7B-Instruct --weights EditReward-Qwen2.5-VL-7B \
      --prompts EditReward/EditReward/dataset/prompts.py --out scorers/editreward
  score import adiee --weights ADIEE --prompts question.txt --out scorers/adiee
  score import clip --base testdata/oracle/clip/model --out clip
  score import hpsv2 --base CLIP-ViT-H-14-laion2B-s32B-b79K --weights HPS_v2.1_compressed.pt --out scorers/hpsv2
  score import choices --base backbones/tiny --prompts question.txt --choices 0,1,2,3,4,5 --out digits
  score import choices --base backbones/tiny --prompts question.txt --choices Y,N --values 1,0 --out fulfilled`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: slices.Concat(released.Kinds(), t2i.Kinds()),
		RunE: func(c *cobra.Command, args []string) error {
			if slices.Contains(t2i.Kinds(), args[0]) {
				return importReward(c, args[0], t2i.Source{Base: o.Base, Weights: o.Weights, Config: o.Config, Out: o.Out,
					Copy: o.Copy, Preprocessing: encoders.Preprocessing(preprocessing)})
			}
			if preprocessing != "" {
				return exit.Usagef("--preprocessing belongs to the kinds %s", strings.Join(t2i.Kinds(), ", "))
			}
			return importJudge(c, args[0], &o)
		},
	}
	flags := c.Flags()
	flags.StringVar(&o.Base, "base", "", "checkpoint directory: configuration, tokenizer, chat template, processor")
	flags.StringVar(&o.Weights, "weights", "", "the judge's weights: a `DIR`, or a .safetensors file; rewards: also .pt")
	flags.StringVar(&o.Config, "config", "", "the judge's own configuration, YAML or JSON (default: as published)")
	flags.StringVar(&o.Prompts, "prompts", "", "the judge's prompts: a Python file, a folder of texts, or a text")
	flags.StringVar(&o.Out, "out", "", "scorer directory to make")
	flags.BoolVar(&o.Copy, "copy", false, "copy base and weights into the scorer directory")
	flags.IntSliceVar(&o.PairSize, "pair-size", nil, "adiee: height,width of each picture (default 512,512)")
	flags.StringVar(&o.Answer, "answer", "", "adiee: answer to assume, instead of letting the model answer")
	flags.StringSliceVar(&o.Choices, "choices", nil, "choices: the answers, each one token")
	flags.Float64SliceVar(&o.Values, "values", nil, "choices: value of each (default: the answers are numbers)")
	flags.Float64SliceVar(&o.Range, "range", nil, "choices: lowest,highest score (default: those of the values)")
	flags.StringSliceVar(&o.Pictures, "pictures", nil, "choices: what is shown (default source,edit)")
	flags.StringVar(&o.Fusion, "fusion", "",
		"choices: how several prompts are combined: mean (default), min, sum, product, sqrt_product")
	flags.BoolVar(&o.Joint, "joint", false,
		"choices: answers of several tokens, by their joint likelihoods; a pass for each choice")
	flags.StringVar(&preprocessing, "preprocessing", "", "rewards of text-to-image models: how pictures are resized and "+
		"cropped: transformers, torchvision, tensor, tensor_no_alias (default: as the reward's own code)")
	flags.StringVar(&o.Alpha, "alpha", "", "choices: transparency: white (default: composited over white) or drop")
	return c
}

// importReward imports a reward of text-to-image models.
func importReward(c *cobra.Command, kind string, s t2i.Source) error {
	if s.Out == "" {
		return exit.Usagef("--out is needed: a folder to make")
	}
	for _, name := range []string{"prompts", "pair-size", "answer", "choices", "values", "range", "pictures", "fusion",
		"alpha", "joint"} {
		if c.Flags().Changed(name) {
			return exit.Usagef("--%s does not belong to %s", name, kind)
		}
	}
	if _, err := os.Stat(s.Out); err == nil {
		return exit.Usagef("--out %s already exists: use another name, or remove it", s.Out)
	}
	r, err := t2i.Import(kind, s)
	if err != nil {
		return err
	}
	return cli.Print(c, r, func(w io.Writer) { fmt.Fprintf(w, "%s is in %s\n", r.Name, r.Out) })
}

func importJudge(c *cobra.Command, kind string, o *released.Options) error {
	if o.Out == "" {
		return exit.Usagef("--out is needed: a scorer directory to make")
	}
	for name, kinds := range map[string]string{"pair-size": "adiee", "answer": "adiee", "choices": "choices",
		"values": "choices", "range": "choices", "pictures": "choices", "fusion": "choices", "alpha": "choices",
		"joint": "choices"} {
		if c.Flags().Changed(name) && kind != kinds {
			return exit.Usagef("--%s belongs to the kind %s, not to %s", name, kinds, kind)
		}
	}
	if kind == "choices" && c.Flags().Changed("config") {
		return exit.Usagef("--config is for released judges, not for choices")
	}
	if o.Base == "" && kind != "adiee" {
		return exit.Usagef("--base is needed: a checkpoint directory")
	}
	for name, n := range map[string]int{"pair-size": len(o.PairSize), "range": len(o.Range)} {
		if c.Flags().Changed(name) && n != 2 {
			return exit.Usagef("--%s takes two numbers", name)
		}
	}
	if _, err := os.Stat(o.Out); err == nil {
		return exit.Usagef("--out %s already exists: use another name, or remove it", o.Out)
	}
	r, err := released.Import(kind, *o)
	if err != nil {
		return err
	}
	warn := cli.Warner(c)
	for _, w := range r.Warnings {
		warn(w)
	}
	return cli.Print(c, r, func(w io.Writer) {
		fmt.Fprintf(w, "%s is in %s; its dimensions: %s\n", r.Name, r.Out, strings.Join(r.Dimensions, ", "))
	})
}
