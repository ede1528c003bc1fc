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

// answerFlags say which model answers in words, on this machine or on a server, and where its answers are kept.
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

// serverOptions are the flags that say more of a model on a server.
var serverOptions = []string{"model", "key-variable", "concurrency", "token-cap", "cost-cap"}

// addServer adds the flags of a model on a server, and of where answers are kept.
func (f *answerFlags) addServer(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.server, "server", "", "YAML file of a server's settings (docs/text-judges.md); "+
		"flags override it")
	flags.StringVar(&f.url, "url", "", "server that speaks OpenAI's chat protocol, such as http://localhost:8000/v1")
	flags.StringVar(&f.model, "model", "", "name by which the server knows the model")
	flags.StringVar(&f.keyVariable, "key-variable", "", "environment variable that holds the API key")
	flags.IntVar(&f.concurrency, "concurrency", 0, "requests at a time (default 8)")
	flags.Int64Var(&f.tokenCap, "token-cap", 0, "most tokens of this run, prompts included (0: no bound)")
	flags.Float64Var(&f.costCap, "cost-cap", 0, "highest cost of this run, by the prices in --server (0: no bound)")
	flags.StringVar(&f.store, "store", "", "folder of stored answers (default: beside the user's own store)")
	cli.Needs(c, "url|server", serverOptions...)
}

// open opens the model, with its kept answers; the caller closes it.
func (f *answerFlags) open(c *cobra.Command) (*chat.Kept, error) {
	onServer := f.server != "" || f.url != ""
	if onServer == (f.local.backbone != "") {
		return nil, exit.Usagef("either --url and --model (or --server) are needed, or --backbone: which model is asked")
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

// capped makes an interruption of the error that a cap is reached. note follows it; without one it says how to resume,
// unless the error of a table does.
func capped(err error, note string) error {
	if !errors.Is(err, chat.ErrCap) {
		return err
	}
	var early *table.InterruptedError
	switch {
	case note == "" && errors.As(err, &early):
		return fmt.Errorf("%w: %w", err, exit.ErrInterrupted)
	case note == "":
		note = "what was answered is kept; rerun the same command to resume"
	}
	return fmt.Errorf("%w: %s: %w", err, note, exit.ErrInterrupted)
}

// apply puts the flags that were given above the file's settings.
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
