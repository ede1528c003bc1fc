package score

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/table"
)

// answerFlags select the model that a VLM judge asks, on this machine or on a server, and where its answers are
// stored.
type answerFlags struct {
	local                                  modelFlags
	server, url, model, keyVariable, store string
	concurrency                            int
	tokenCap                               int64
	costCap                                float64
}

func (f *answerFlags) add(c *cobra.Command) {
	f.local.add(c, "backbone")
	f.local.addPlace(c, " of --backbone")
	f.addServer(c)
}

// serverOptions are the further flags of a model on a server.
var serverOptions = []string{"model", "key-variable", "concurrency", "token-cap", "cost-cap"}

// addServer adds the flags of a model on a server, and of the store of answers.
func (f *answerFlags) addServer(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.server, "server", "", "YAML file of a server's settings (docs/text-judges.md); "+
		"flags override it")
	flags.StringVar(&f.url, "url", "", "server that speaks OpenAI's chat protocol, such as http://localhost:8000/v1")
	flags.StringVar(&f.model, "model", "", "name of the model on the server")
	flags.StringVar(&f.keyVariable, "key-variable", "", "environment variable that holds the API key")
	flags.IntVar(&f.concurrency, "concurrency", 0, "requests at a time (default 8)")
	flags.Int64Var(&f.tokenCap, "token-cap", 0, "maximum tokens of this run, including prompts (0: no limit)")
	flags.Float64Var(&f.costCap, "cost-cap", 0, "maximum cost of this run, at the prices in --server (0: no limit)")
	flags.StringVar(&f.store, "store", "", "folder of stored answers (default: next to the user's store)")
	cli.Needs(c, "url|server", serverOptions...)
}

// open opens the model, with its stored answers; the caller closes it.
func (f *answerFlags) open(c *cobra.Command) (*chat.Kept, error) {
	onServer := f.server != "" || f.url != ""
	if onServer == (f.local.backbone != "") {
		return nil, exit.Usagef("either --url and --model (or --server) are needed, or --backbone: the model to ask")
	}
	var m chat.Model
	var err error
	if onServer {
		m, err = f.openRemote(c)
	} else {
		m, err = f.local.open(c)
	}
	if err != nil {
		return nil, err
	}
	return chat.OpenKept(m, f.store, nil)
}

func (f *answerFlags) openRemote(c *cobra.Command) (*chat.Remote, error) {
	text := []byte{}
	if f.server != "" {
		var err error
		if text, err = os.ReadFile(f.server); err != nil {
			return nil, err
		}
	}
	settings, err := chat.ReadServer(f.server, text, func(s *chat.Server) { f.apply(c, s) })
	if err != nil {
		return nil, exit.Usage(err)
	}
	remote, err := chat.OpenRemote(settings)
	return remote, exit.Usage(err)
}

// capped turns the error of a reached cap into an interruption. note is appended; without a note, how to resume is
// appended unless the error is that of a table, which says so itself.
func capped(err error, note string) error {
	if !errors.Is(err, chat.ErrCap) {
		return err
	}
	var early *table.InterruptedError
	switch {
	case note == "" && errors.As(err, &early):
		return fmt.Errorf("%w: %w", err, exit.ErrInterrupted)
	case note == "":
		note = "the answers so far are saved; rerun the same command to resume"
	}
	return fmt.Errorf("%w: %s: %w", err, note, exit.ErrInterrupted)
}

// apply overrides the file's settings with the given flags.
func (f *answerFlags) apply(c *cobra.Command, s *chat.Server) {
	for name, set := range map[string]func(){
		"url":          func() { s.URL = f.url },
		"model":        func() { s.Model = f.model },
		"key-variable": func() { s.KeyVariable = f.keyVariable },
		"concurrency":  func() { s.Concurrency = f.concurrency },
		"token-cap":    func() { s.TokenCap = f.tokenCap },
		"cost-cap":     func() { s.CostCap = f.costCap },
	} {
		if c.Flags().Changed(name) {
			set()
		}
	}
}
