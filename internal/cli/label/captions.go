package label

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/internal/captions"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/generate"
	_ "assay/model/families"
)

func init() { App.Register(newCaptions) }

func newCaptions() *cobra.Command {
	var config, examples string
	c := &cobra.Command{
		Use:   "captions --config FILE",
		Short: "Write captions of sources and targets with a vision-language model",
		Long: `captions has a vision-language model describe the source and the target of every edit of a table, in dialogues
that contain the instruction and show only the source, and writes the same rows with

  source_caption, target_caption   the model's answer, on one line
  captioned_by                     the model
  caption_error                    why a row has none

label reads the result like any other table (layout: table). With the captions CLIP-D can be computed for its rows, and
clip_t by label similarities. The model is a checkpoint on this machine, with or without an adapter, or a server that
speaks OpenAI's chat protocol. The dialogues are data: docs/label.md shows the file, and prompts: FILE replaces them;
other dialogues may also show the target.

Answers are saved in a store: after Ctrl-C (exit code 3), a crash or a server's refusal, run the same command to resume.
Nothing is asked, or paid for, twice. A row without captions has the reason in caption_error; the other rows are
written, and the exit code is then 1.

With --examples the table's captions are written as conversations, on which train (mode: text) trains a model to answer
the same questions.`,
		Example: `  label captions --config captions.yaml
  label captions --config captions.yaml --examples conversations.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if config == "" {
				return exit.Usagef("--config FILE is needed (docs/label.md has all keys)")
			}
			settings, prompts, err := captions.Load(config)
			if err != nil {
				return exit.Usage(err)
			}
			r := &captions.Run{Config: settings, Writer: captions.Writer{Prompts: prompts}}
			if examples == "" {
				return writeCaptions(c, r)
			}
			result, err := r.Examples(c.Context(), examples)
			if err != nil {
				return err
			}
			return cli.Print(c, result, func(w io.Writer) {
				fmt.Fprintf(w, "%d conversations from %d rows with captions, written to %s\n", result.Written, result.Given,
					examples)
			})
		},
	}
	c.Flags().StringVar(&config, "config", "", "YAML file of the run")
	c.Flags().StringVar(&examples, "examples", "",
		"write the table's captions as training conversations (.jsonl), ask nothing")
	cli.Writes(c, nil, "examples")
	return c
}

func writeCaptions(c *cobra.Command, r *captions.Run) (err error) {
	kept, err := openCaptioner(r, cli.Warner(c))
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, kept.Close()) }()
	r.Writer.Model = kept
	r.Writer.Options = chat.Options{MaxNewTokens: r.MaxNewTokens, Temperature: &r.Temperature, Seed: r.Seed}
	bar := cli.Bar{Command: c, What: "captions", Unit: "rows", Note: func(time.Duration) string {
		return fmt.Sprintf("%d asked", kept.Asked().Answers)
	}}
	r.Progress = bar.Set
	result, err := r.Write(c.Context())
	bar.Close()
	if err != nil {
		return err
	}
	out := struct {
		*captions.Result
		chat.Asked
	}{result, kept.Asked()}
	err = cli.Print(c, out, func(w io.Writer) {
		fmt.Fprintf(w, "%d of %d rows captioned by %s, %d had captions, written to %s; %d answers asked for, %d found\n",
			out.Written, out.Rows, r.Name, out.Given, out.Out, out.Answers, out.Found)
		if out.SourceOnly > 0 {
			fmt.Fprintf(w, "%d rows have only the source's caption: they have no target, which the prompts show\n",
				out.SourceOnly)
		}
	})
	if err != nil || result.Failed == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d of %d rows have no captions; the column caption_error of %s says why",
		result.Failed, result.Rows, result.Out))
}

// openCaptioner opens the model of a run, with its stored answers.
func openCaptioner(r *captions.Run, warn func(string)) (*chat.Kept, error) {
	if r.Remote {
		remote, err := chat.OpenRemote(r.Server)
		if err != nil {
			return nil, err
		}
		r.Name, r.Workers = r.Server.Model, r.Server.Concurrency
		return chat.OpenKept(remote, r.Store, warn)
	}
	o := generate.Options{
		Adapter: r.Model.Adapter,
		Device:  r.Model.Device,
		DType:   r.Model.DType,
		Threads: r.Model.Threads,
		Cache:   int64(r.Model.Cache),
		Batch:   r.Model.Answers,
		Warn:    warn,
	}
	o.Threads = cmp.Or(o.Threads, runtime.NumCPU())
	if r.Name = filepath.Base(r.Model.Backbone); r.Model.Adapter != "" {
		r.Name += " + " + filepath.Base(r.Model.Adapter)
	}
	r.Workers = 2 * r.Model.Answers // some rows are prepared while others are answered
	local, err := generate.Open(r.Model.Backbone, o)
	if err != nil {
		return nil, err
	}
	return chat.OpenKept(local, r.Store, warn)
}
