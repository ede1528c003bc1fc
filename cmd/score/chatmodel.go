package main

import (
	"os"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/internal/cli"
	"assay/store"
)

// answerFlags say which model answers in words.
type answerFlags struct {
	server, url, model, keyVariable, answers string
	concurrency                              int
	tokenCap                                 int64
	costCap                                  float64
}

func (f *answerFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.server, "server", "", "YAML file of a server's settings; the flags below stand above it")
	flags.StringVar(&f.url, "url", "", "server that speaks OpenAI's chat protocol, as http://localhost:8000/v1")
	flags.StringVar(&f.model, "model", "", "name by which the server knows the model")
	flags.StringVar(&f.keyVariable, "key-variable", "", "environment variable that holds the API key")
	flags.IntVar(&f.concurrency, "concurrency", 0, "requests at a time (default 8)")
	flags.Int64Var(&f.tokenCap, "token-cap", 0, "cap on all tokens of this run, prompts included (0: none)")
	flags.Float64Var(&f.costCap, "cost-cap", 0, "cap on the costs of this run, by the prices of --server (0: none)")
	flags.StringVar(&f.answers, "answers", "", "folder in which answers are kept (default: beside the user's own store)")
}

// chatModel is a model whose answers are kept.
type chatModel struct {
	*chat.Kept
	remote  *chat.Remote
	answers *store.Store
}

// open opens the model; the caller closes it.
func (f *answerFlags) open(c *cobra.Command) (*chatModel, error) {
	if f.server == "" && f.url == "" {
		return nil, cli.Usagef("--url and --model are needed, or --server: which model is asked")
	}
	text := []byte{}
	if f.server != "" {
		var err error
		if text, err = os.ReadFile(f.server); err != nil {
			return nil, err
		}
	}
	settings, err := chat.ReadServer(f.server, text, func(s *chat.Server) { f.apply(c, s) })
	if err != nil {
		return nil, cli.Usage(err)
	}
	remote, err := chat.OpenRemote(settings)
	if err != nil {
		return nil, cli.Usage(err)
	}
	m := &chatModel{remote: remote}
	folder := f.answers
	if folder == "" {
		if folder, err = chat.AnswersFolder(); err != nil {
			return nil, err
		}
	}
	if m.answers, err = store.Open(folder, store.Options{}); err != nil {
		return nil, err
	}
	m.Kept, err = chat.Keep(remote, m.answers)
	return m, err
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

// Close closes the connections and the kept answers.
func (m *chatModel) Close() error {
	err := m.remote.Close()
	if e := m.answers.Close(); err == nil {
		err = e
	}
	return err
}

// asked says what was asked in this run, and what was found.
type asked struct {
	Found int64      `json:"found"` // answers that were kept
	Spent chat.Spent `json:"spent"`
}

func (m *chatModel) asked() asked { return asked{m.Found(), m.remote.Spent()} }
