package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/store"
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

// chatModel is a model whose answers are kept.
type chatModel struct {
	*chat.Kept
	model   chat.Model
	remote  *chat.Remote // nil: it runs on this machine
	answers *store.Store
}

// open opens the model; the caller closes it.
func (f *answerFlags) open(c *cobra.Command) (*chatModel, error) {
	onServer := f.server != "" || f.url != ""
	if onServer == (f.local.backbone != "") {
		return nil, exit.Usagef("either --url and --model (or --server) are needed, or --backbone: which model is asked")
	}
	m := &chatModel{}
	var err error
	if onServer {
		m.remote, err = f.openRemote(c)
		m.model = m.remote
	} else {
		m.model, err = f.local.open(c)
	}
	if err != nil {
		return nil, err
	}
	return m.keep(f.store)
}

// keep keeps the answers in a folder, or in the user's own; the model is closed if that cannot be.
func (m *chatModel) keep(folder string) (*chatModel, error) {
	var err error
	if folder == "" {
		folder, err = chat.AnswersFolder()
	}
	if err == nil {
		m.answers, err = store.Open(folder, store.Options{})
	}
	if err == nil {
		m.Kept, err = chat.Keep(m.model, m.answers)
	}
	if err != nil {
		m.model.Close()
		return nil, err
	}
	return m, nil
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

// workers is how many rows are judged at a time.
func (m *chatModel) workers(f *answerFlags) int {
	if m.remote != nil {
		return m.remote.Concurrency()
	}
	return f.local.o.Batch
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

// Close frees the model and closes the kept answers.
func (m *chatModel) Close() error {
	err := m.model.Close()
	if e := m.answers.Close(); err == nil {
		err = e
	}
	return err
}

// asked says what was asked in this run, and what was found.
type asked struct {
	Answers int64       `json:"answers"`         // that the model gave
	Found   int64       `json:"found"`           // that were kept
	Spent   *chat.Spent `json:"spent,omitempty"` // of a server
}

func (m *chatModel) asked() asked {
	a := asked{Answers: m.Asked(), Found: m.Found()}
	if m.remote != nil {
		spent := m.remote.Spent()
		a.Spent = &spent
	}
	return a
}

// String says it in words.
func (a asked) String() string {
	text := fmt.Sprintf("%d answers asked for, %d found", a.Answers, a.Found)
	if a.Spent == nil {
		return text
	}
	text += fmt.Sprintf("; %d requests, %d tokens of prompts, %d of answers", a.Spent.Requests, a.Spent.Prompt,
		a.Spent.Completion)
	if a.Spent.Cost > 0 {
		text += fmt.Sprintf(", cost %.4g", a.Spent.Cost)
	}
	if a.Spent.Uncounted > 0 {
		text += fmt.Sprintf(" (%d answers without a count)", a.Spent.Uncounted)
	}
	return text
}
