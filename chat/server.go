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

// Server describes where a remote model is and how to ask it.
type Server struct {
	URL   string `yaml:"url"`   // base, such as http://localhost:8000/v1: requests go to URL/chat/completions
	Model string `yaml:"model"` // its name on the server

	// KeyVariable names the environment variable that holds the API key; "": the server needs none. The key itself is
	// neither stored nor shown.
	KeyVariable string `yaml:"key_variable"`

	Concurrency int     `yaml:"concurrency"` // requests at a time
	Timeout     float64 `yaml:"timeout"`     // seconds until a request is abandoned
	Retries     int     `yaml:"retries"`     // of a request, after the first try
	MaxWait     float64 `yaml:"max_wait"`    // seconds between two tries; a longer Retry-After ends the run

	// AnswersAs lists model names, in addition to Model, that answers may carry: an alias answers with its full name.
	AnswersAs []string `yaml:"answers_as"`
	// LimitField is the protocol's field for MaxNewTokens: max_tokens or max_completion_tokens.
	LimitField string `yaml:"limit_field"`
	// Extra holds more fields of a request, such as chat_template_kwargs.
	Extra Object `yaml:"extra"`

	// ResponseFormat makes requests whose answers must follow a grammar use response_format: json_schema. Servers
	// differ in how they implement it; without it such requests are refused.
	ResponseFormat bool `yaml:"response_format"`

	Price    Price   `yaml:"price"`
	TokenCap int64   `yaml:"token_cap"` // of all answers of this process, prompts included; 0: no cap
	CostCap  float64 `yaml:"cost_cap"`  // in the currency of Price; 0: no cap
}

// Price is the price of a million tokens.
type Price struct {
	Prompt     float64 `yaml:"prompt"`
	Cached     float64 `yaml:"cached"` // prompt tokens from the server's cache; 0: as the prompt
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

// DefaultServer returns the defaults of all optional settings.
func DefaultServer() Server {
	return Server{Concurrency: 8, Timeout: 300, Retries: 5, MaxWait: 120, LimitField: "max_tokens"}
}

// ownFields are the request fields that Extra must not set: messages, [Options] and other settings determine them.
var ownFields = []string{
	"model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "repetition_penalty",
	"seed", "stop", "stop_token_ids", "logprobs", "n", "stream",
}

// Check returns the problems by key.
func (s *Server) Check() map[string]string {
	wrong := map[string]string{}
	if u, err := url.Parse(s.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		wrong["url"] = fmt.Sprintf("%q: want http:// or https://, host and path, such as http://localhost:8000/v1", s.URL)
	} else if u.User != nil || u.RawQuery != "" {
		wrong["url"] = "must not have a user, password or query: name the variable with the key in key_variable"
	}
	if s.Model == "" {
		wrong["model"] = "is required: the model's name on the server"
	}
	s.checkBounds(wrong)
	if _, ok := s.Extra["response_format"]; ok && s.ResponseFormat {
		wrong["extra"] = "response_format has its own setting"
	}
	if s.LimitField != "max_tokens" && s.LimitField != "max_completion_tokens" {
		wrong["limit_field"] = fmt.Sprintf("%q: want max_tokens or max_completion_tokens", s.LimitField)
	}
	for _, name := range ownFields {
		if _, ok := s.Extra[name]; ok {
			wrong["extra"] = name + " is set elsewhere"
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
		wrong["timeout"] = fmt.Sprintf("want seconds, more than 0 and at most a day (86400), not %v", s.Timeout)
	}
	if s.Retries < 0 || s.Retries > 100 {
		wrong["retries"] = fmt.Sprintf("want 0 to 100, not %d", s.Retries)
	}
	if !(s.MaxWait > 0) || s.MaxWait > 86400 {
		wrong["max_wait"] = fmt.Sprintf("want seconds, more than 0 and at most a day (86400), not %v", s.MaxWait)
	}
	if s.Price.Prompt < 0 || s.Price.Cached < 0 || s.Price.Completion < 0 {
		wrong["price"] = "want prices of a million tokens, 0 or more"
	}
	if s.TokenCap < 0 {
		wrong["token_cap"] = "want 0 (no cap) or more"
	}
	if s.CostCap < 0 || s.CostCap > 0 && s.Price == (Price{}) {
		wrong["cost_cap"] = "want 0 (no cap) or more, and a price: without one the cost is always 0"
	}
}

// key reads the API key.
func (s *Server) key() (string, error) {
	if s.KeyVariable == "" {
		return "", nil
	}
	key := strings.TrimSpace(os.Getenv(s.KeyVariable))
	if key == "" {
		return "", fmt.Errorf("the environment variable %s is empty; set it to the API key of %s",
			s.KeyVariable, s.URL)
	}
	return key, nil
}

func (s *Server) timeout() time.Duration { return time.Duration(s.Timeout * float64(time.Second)) }

func (s *Server) maxWait() time.Duration { return time.Duration(s.MaxWait * float64(time.Second)) }

// identity returns what determines the answers, as text.
func (s *Server) identity() (string, error) {
	extra, err := json.Marshal(s.Extra) // map keys are sorted
	return strings.TrimRight(s.URL, "/") + "\n" + s.Model + "\n" + string(extra), err
}

// ReadServer reads the settings of a server from YAML text; its error lists all problems at once and names file.
// change (may be nil) alters the settings before they are checked.
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
