package score

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"assay/chat"
	chattable "assay/chat/table"
	"assay/data"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/generate"
	"assay/internal/strictyaml"
	"assay/internal/table"
	"assay/model/exec"
	"assay/model/language"
	"assay/ort"
)

func init() { register(newChatCommand) }

// modelOptions returns the further flags of a checkpoint whose own flag has this name.
func modelOptions(name string) []string {
	return []string{strings.Replace(name, "backbone", "adapter", 1), "cache", "dtype", "answers", "pictures"}
}

// modelFlags select a checkpoint that answers, and how it runs.
type modelFlags struct {
	backbone string
	o        generate.Options
}

func (f *modelFlags) add(c *cobra.Command, name string) {
	flags := c.Flags()
	flags.StringVar(&f.backbone, name, "", "Hugging Face checkpoint directory that answers")
	flags.StringVar(&f.o.Adapter, strings.Replace(name, "backbone", "adapter", 1), "",
		"LoRA adapter of --"+name+" (PEFT files, as written by train with mode: text)")
	flags.Var((*strictyaml.Bytes)(&f.o.Cache), "cache", "`bytes` of the KV cache, such as "+
		"4GiB or 500MB (0: 2GiB; on CUDA, what fits on the device). A request that needs more is refused")
	flags.StringVar(&f.o.DType, "dtype", "auto", "data type of --"+name+" on CUDA: float32, bfloat16, or "+
		"auto (bfloat16 if its weights are half precision); the CPU computes in float32")
	flags.StringVar(&f.o.Pair, "pictures", "sequence", "how pictures are passed to --"+name+": sequence, or frames (each "+
		"two of a message as the frames of one, as in training with pair: frames)")
	flags.IntVar(&f.o.Batch, "answers", 8, "answers generated at a time on --"+name)
	cli.Needs(c, name, modelOptions(name)...)
}

// addPlace adds the flags for threads and device, for commands that do not have them already.
func (f *modelFlags) addPlace(c *cobra.Command, of string) {
	c.Flags().IntVar(&f.o.Threads, "threads", 0, "CPU threads"+of+" (0: all cores)")
	c.Flags().StringVar(&f.o.Device, "device", "auto", "auto, cpu or cuda:N"+of)
}

func (f *modelFlags) open(c *cobra.Command) (*generate.Model, error) {
	if f.o.Batch <= 0 || f.o.Threads < 0 {
		return nil, exit.Usagef("--answers %d must be positive, --threads %d not negative", f.o.Batch, f.o.Threads)
	}
	if err := exec.CheckPair(f.o.Pair); err != nil {
		return nil, exit.Usagef("--pictures %w", err)
	}
	if err := errors.Join(ort.CheckDevice(f.o.Device), language.CheckDType(f.o.DType)); err != nil {
		return nil, exit.Usage(err)
	}
	f.o.Threads = cmp.Or(f.o.Threads, runtime.NumCPU())
	f.o.Warn = cli.Warner(c)
	m, err := generate.Open(f.backbone, f.o)
	return m, exit.Named(err)
}

// questionFlags are the flags of a question, or of a table of questions.
type questionFlags struct {
	modelFlags
	table                         table.Options
	images, stop                  []string
	text, system                  string
	maxNewTokens, topK            int
	temperature, topP, repetition float64
	seed                          uint64
	stopTokens                    []int64
}

func newChatCommand() *cobra.Command {
	var f questionFlags
	c := &cobra.Command{
		Use:   "chat --backbone DIR --text QUESTION | --in FILE --out FILE",
		Short: "Ask a vision-language model about pictures",
		Long: `chat asks a checkpoint a question about pictures and prints the answer as it is generated, or answers a table
of questions. Defaults come from the checkpoint's generation_config.json; flags and keys of a row override them.

A row of the table (.jsonl) is {"id", "messages"} and may have max_new_tokens, temperature (0: greedy), top_k, top_p,
repetition_penalty, stop, stop_token_ids and seed. messages are as in transformers' apply_chat_template; a picture is
{"type": "image", "image": PATH}, relative to the table's folder. The output has {"id", "text", "token_ids",
"token_logprobs", "finish_reason"} or {"id", "error"} for each row, in order; with an error the exit code is 1. Answers
are saved in OUT.progress: after Ctrl-C (exit code 3) or a crash the same command resumes.

On the CPU an answer does not depend on its batch, and a sampled answer is determined by its seed. On CUDA the last bits
depend on the batch, so later tokens may as well.`,
		Example: `  score chat --backbone backbones/tiny --image testdata/oracle/images/coffee.png --text "What is this?" \
      --max-new-tokens 8
  score chat --backbone DIR --image a.png --image b.png --text "What was changed?" --temperature 0
  score chat --backbone DIR --adapter runs/captions/adapter --image a.png --text "What is there?"
  score chat --backbone DIR --in questions.jsonl --out answers.jsonl --device cuda:0 --dtype bfloat16`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(c); err != nil {
				return err
			}
			m, err := f.open(c)
			if err != nil {
				return err
			}
			defer m.Close()
			if f.table.In != "" {
				return askTable(c, m, f.table)
			}
			return f.ask(c, m)
		},
	}
	f.add(c, "backbone")
	f.addPlace(c, "")
	flags := c.Flags()
	flags.StringVar(&f.table.In, "in", "", "table of questions (.jsonl)")
	flags.StringVar(&f.table.Out, "out", "", "table of answers to write (.jsonl); replaced if it exists")
	cli.Writes(c, nil, "out")
	flags.StringVar(&f.text, "text", "", "question")
	flags.StringArrayVar(&f.images, "image", nil, "picture that the question is about; may be given several times")
	flags.StringVar(&f.system, "system", "", "system prompt")
	cli.TakesText(c, "text", "system")
	flags.IntVar(&f.maxNewTokens, "max-new-tokens", 0, "maximum tokens of the answer (0: the model's own limit)")
	flags.Float64Var(&f.temperature, "temperature", 0, "sampling temperature; 0: greedy")
	flags.IntVar(&f.topK, "top-k", 0, "sample from this many of the likeliest tokens; 0: all")
	flags.Float64Var(&f.topP, "top-p", 1, "sample from the likeliest tokens with this total probability")
	flags.Float64Var(&f.repetition, "repetition-penalty", 1, "penalty on tokens that occurred already; 1: none")
	flags.StringArrayVar(&f.stop, "stop", nil, "text that ends the answer; may be given several times")
	flags.Int64SliceVar(&f.stopTokens, "stop-token", nil, "token id that ends the answer, besides the model's own")
	flags.Uint64Var(&f.seed, "seed", 0, "seed of sampling")
	return c
}

// askingFlags are the flags of a single question.
var askingFlags = []string{"text", "image", "system", "max-new-tokens", "temperature", "top-k", "top-p",
	"repetition-penalty", "stop", "stop-token", "seed"}

// check checks that there is either a question or a table.
func (f *questionFlags) check(c *cobra.Command) error {
	if f.backbone == "" {
		return exit.Usagef("--backbone is needed: a Hugging Face checkpoint directory")
	}
	if f.table.In == "" && f.table.Out == "" {
		if f.text == "" {
			return exit.Usagef("--text is needed: a question; or --in and --out: tables")
		}
		return nil
	}
	if f.table.In == "" || f.table.Out == "" {
		return exit.Usagef("--in and --out go together: .jsonl tables")
	}
	for _, name := range askingFlags {
		if c.Flags().Changed(name) {
			return exit.Usagef("--%s is for a single question: the rows of %s have their own options", name, f.table.In)
		}
	}
	return nil
}

// options returns the options of the given flags.
func (f *questionFlags) options(c *cobra.Command) chat.Options {
	return chat.Options{
		MaxNewTokens:      f.maxNewTokens,
		Temperature:       given(c, "temperature", &f.temperature),
		TopK:              given(c, "top-k", &f.topK),
		TopP:              given(c, "top-p", &f.topP),
		RepetitionPenalty: given(c, "repetition-penalty", &f.repetition),
		Seed:              f.seed,
		Stop:              f.stop,
		StopTokenIDs:      f.stopTokens,
		LogProbs:          cli.JSON(c),
	}
}

// given returns the value of a flag, or nil if it was not given.
func given[T any](c *cobra.Command, name string, value *T) *T {
	if !c.Flags().Changed(name) {
		return nil
	}
	return value
}

// ask prints the answer to one question as it is generated.
func (f *questionFlags) ask(c *cobra.Command, m *generate.Model) error {
	var messages []chat.Message
	if f.system != "" {
		messages = append(messages, chat.Message{Role: "system", Content: []chat.Part{{Text: f.system}}})
	}
	question := chat.Message{Role: "user"}
	for _, path := range f.images {
		p, err := data.Open(path, data.Limits{})
		if err != nil {
			return exit.Named(err)
		}
		question.Content = append(question.Content, chat.Part{Image: p})
	}
	question.Content = append(question.Content, chat.Part{Text: f.text})
	var piece func(string) error
	if !cli.JSON(c) {
		piece = func(s string) error {
			_, err := io.WriteString(c.OutOrStdout(), s)
			return err
		}
	}
	a, err := m.Stream(c.Context(), append(messages, question), f.options(c), piece)
	if errors.Is(err, chat.ErrRequest) {
		err = exit.Usage(err)
	}
	if err != nil {
		return err
	}
	result := map[string]any{"text": a.Text, "token_ids": a.TokenIDs, "token_logprobs": a.LogProbs,
		"finish_reason": a.Finish, "prompt_tokens": a.Usage.Prompt, "completion_tokens": a.Usage.Completion}
	return cli.Print(c, result, func(w io.Writer) { fmt.Fprintln(w) })
}

// askTable asks the rows of a table.
func askTable(c *cobra.Command, m *generate.Model, o table.Options) error {
	bar := cli.Bar{Command: c, What: "asking", Unit: "rows"}
	o.Progress = bar.Set
	o.Workers = 32 // some are prepared while others are answered
	r, err := chattable.Ask(c.Context(), m, o)
	bar.Close()
	if err != nil {
		return err
	}
	err = cli.Print(c, r, func(w io.Writer) {
		fmt.Fprintf(w, "%d of %d rows answered, written to %s\n", r.Answered, r.Rows, r.Out)
	})
	if err != nil || r.Failed == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d of %d rows could not be answered; error of %s says why", r.Failed, r.Rows, r.Out))
}
