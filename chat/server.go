package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"assay/internal/strictyaml"
)

// Server says where a remote model is, and how it is asked.
type Server struct {
	URL   string `yaml:"url"`   // base, as http://localhost:8000/v1: requests go to URL/chat/completions
	Model string `yaml:"model"` // the name by which the server knows it

	// KeyVariable names the environment variable that holds the API key; "": the server wants none. The key itself is
	// neither stored nor shown.
	KeyVariable string `yaml:"key_variable"`

	Concurrency int     `yaml:"concurrency"` // requests at a time
	Timeout     float64 `yaml:"timeout"`     // seconds until a request is given up
	Retries     int     `yaml:"retries"`     // of a request, besides the first try
	MaxWait     float64 `yaml:"max_wait"`    // seconds between two tries; a longer Retry-After ends the run

	// AnswersAs lists names of models, besides Model, that answers may bear: an alias answers by its full name.
	AnswersAs []string `yaml:"answers_as"`
	// LimitField is the protocol's name for MaxNewTokens: max_tokens, or max_completion_tokens.
	LimitField string `yaml:"limit_field"`
	// Extra are more fields of a request, as chat_template_kwargs.
	Extra Object `yaml:"extra"`

	// ResponseFormat lets requests whose answers have to follow a grammar ask for response_format: json_schema. Servers
	// differ in what they make of it; without it such requests are refused.
	ResponseFormat bool `yaml:"response_format"`

	Price    Price   `yaml:"price"`
	TokenCap int64   `yaml:"token_cap"` // of all answers of this process, prompts included; 0: no cap
	CostCap  float64 `yaml:"cost_cap"`  // in the currency of Price; 0: no cap
}

// Price is what a million tokens cost.
type Price struct {
	Prompt     float64 `yaml:"prompt"`
	Cached     float64 `yaml:"cached"` // part of the prompt that the server had already; 0: as the prompt
	Completion float64 `yaml:"completion"`
}

// Object is a JSON object in a YAML file.
type Object map[string]any

// UnmarshalValue implements strictyaml.Unmarshaler.
func (o *Object) UnmarshalValue(v any) error {
	m, ok := v.(map[string]any)
	if !ok {
		return errors.New("want keys with values (a mapping)")
	}
	*o = m
	return nil
}

// DefaultServer has the defaults of all that need not be said.
func DefaultServer() Server {
	return Server{Concurrency: 8, Timeout: 300, Retries: 5, MaxWait: 120, LimitField: "max_tokens"}
}

// ownFields are the request's fields that [Options] and messages set.
var ownFields = []string{
	"model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "repetition_penalty",
	"seed", "stop", "stop_token_ids", "logprobs", "n", "stream",
}

// Check returns the problems by key.
func (s *Server) Check() map[string]string {
	wrong := map[string]string{}
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		wrong["url"] = fmt.Sprintf("%q: want http:// or https://, host and path, as http://localhost:8000/v1", s.URL)
	} else if u.User != nil || u.RawQuery != "" {
		wrong["url"] = "no user, password or query may be in it: name the variable of the key in key_variable"
	}
	if s.Model == "" {
		wrong["model"] = "is needed: the name by which the server knows the model"
	}
	s.checkBounds(wrong)
	if _, ok := s.Extra["response_format"]; ok && s.ResponseFormat {
		wrong["extra"] = "response_format has a place of its own"
	}
	if s.LimitField != "max_tokens" && s.LimitField != "max_completion_tokens" {
		wrong["limit_field"] = fmt.Sprintf("%q: want max_tokens or max_completion_tokens", s.LimitField)
	}
	for _, name := range ownFields {
		if _, ok := s.Extra[name]; ok {
			wrong["extra"] = name + " has a place of its own"
		}
	}
	return wrong
}

// checkBounds checks the numbers.
func (s *Server) checkBounds(wrong map[string]string) {
	if s.Concurrency < 1 || s.Concurrency > 1024 {
		wrong["concurrency"] = fmt.Sprintf("want 1 to 1024, not %d", s.Concurrency)
	}
	if !(s.Timeout > 0) || s.Timeout > 86400 {
		wrong["timeout"] = fmt.Sprintf("want seconds, above 0 and at most a day, not %v", s.Timeout)
	}
	if s.Retries < 0 || s.Retries > 100 {
		wrong["retries"] = fmt.Sprintf("want 0 to 100, not %d", s.Retries)
	}
	if !(s.MaxWait > 0) || s.MaxWait > 86400 {
		wrong["max_wait"] = fmt.Sprintf("want seconds, above 0 and at most a day, not %v", s.MaxWait)
	}
	if s.Price.Prompt < 0 || s.Price.Cached < 0 || s.Price.Completion < 0 {
		wrong["price"] = "want prices of a million tokens, 0 or more"
	}
	if s.TokenCap < 0 {
		wrong["token_cap"] = "want 0 (no cap) or more"
	}
	if s.CostCap < 0 || s.CostCap > 0 && s.Price == (Price{}) {
		wrong["cost_cap"] = "want 0 (no cap) or more, and a price: without one nothing costs anything"
	}
}

// key reads the API key.
func (s *Server) key() (string, error) {
	if s.KeyVariable == "" {
		return "", nil
	}
	key := strings.TrimSpace(os.Getenv(s.KeyVariable))
	if key == "" {
		return "", fmt.Errorf("the environment variable %s, which should hold the API key of %s, is empty",
			s.KeyVariable, s.URL)
	}
	return key, nil
}

func (s *Server) timeout() time.Duration { return time.Duration(s.Timeout * float64(time.Second)) }

func (s *Server) maxWait() time.Duration { return time.Duration(s.MaxWait * float64(time.Second)) }

// identity is what decides the answers, as text.
func (s *Server) identity() (string, error) {
	extra, err := json.Marshal(s.Extra) // keys come sorted
	return strings.TrimRight(s.URL, "/") + "\n" + s.Model + "\n" + string(extra), err
}

// ReadServer reads the settings of a server from YAML text, all problems at once. file is named in them; change (may be
// nil) alters the settings before they are checked.
func ReadServer(file string, text []byte, change func(*Server)) (Server, error) {
	s := DefaultServer()
	d := strictyaml.Decode(file, text, &s)
	if change != nil {
		change(&s)
	}
	if !d.Unreadable {
		for key, text := range s.Check() {
			d.Problem(key, "%s", text)
		}
	}
	return s, d.Err()
}
