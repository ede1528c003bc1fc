package reward

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/go-json-experiment/json"

	"assay/chat"
	"assay/internal/strictjson"
)

// chatRequest is a request to /v1/chat/completions: OpenAI's fields, and the names in vLLM, SGLang and transformers
// of options that OpenAI does not have.
type chatRequest struct {
	model    string
	messages []chat.Message
	pictures []*encodedPicture // of the messages, in order
	options  chat.Options
	several  chat.Several
	stream   bool
	usage    bool // end a stream with the usage
}

// chatHarmless lists fields that do not change the answer: with any value, or with these values.
var chatHarmless = strictjson.Harmless{
	"user":                  nil,
	"metadata":              nil,
	"store":                 nil,
	"service_tier":          nil,
	"safety_identifier":     nil,
	"prompt_cache_key":      nil,
	"parallel_tool_calls":   nil,
	"verbosity":             {nil},
	"modalities":            {nil, []any{"text"}},
	"prediction":            {nil},
	"frequency_penalty":     {nil, 0},
	"presence_penalty":      {nil, 0},
	"logit_bias":            {nil, map[string]any{}},
	"top_logprobs":          {nil, 0},
	"tools":                 {nil, []any{}},
	"tool_choice":           {nil, "none", "auto"},
	"functions":             {nil, []any{}},
	"min_p":                 {nil, 0},
	"min_tokens":            {nil, 0},
	"ignore_eos":            {nil, false},
	"use_beam_search":       {nil, false},
	"length_penalty":        {nil, 1},
	"skip_special_tokens":   {nil, true},
	"add_generation_prompt": {nil, true},
	"echo":                  {nil, false},
}

// parseChat parses a request. A field that is not understood and may change the answer is an error.
func parseChat(raw []byte) (*chatRequest, error) {
	o, err := strictjson.Parse("request", raw)
	if err != nil {
		return nil, err
	}
	p := &chatRequest{}
	o.Get("model", &p.model)
	o.Opt("stream", &p.stream)
	if s := o.Sub("stream_options"); s != nil {
		s.Opt("include_usage", &p.usage)
		s.Close(strictjson.Harmless{"include_obfuscation": nil})
	}
	p.readOptions(o)
	p.messages = chat.ReadMessages(o, 0, p.part, strictjson.Harmless{"name": {nil}, "refusal": {nil},
		"tool_calls": {nil, []any{}}, "function_call": {nil}, "audio": {nil}, "annotations": nil})
	for i := range p.messages {
		if p.messages[i].Role == "developer" { // OpenAI's newer name of this role, which chat templates do not have
			p.messages[i].Role = "system"
		}
	}
	o.Close(chatHarmless)
	return p, o.Err()
}

// readOptions reads the options. A top_k of -1 means all tokens, as in vLLM.
func (p *chatRequest) readOptions(o *strictjson.Object) {
	c := &p.options
	c.Read(o, "max_tokens", "max_completion_tokens")
	o.Opt("logprobs", &c.LogProbs)
	p.several.Read(o, *c)
	if c.TopK != nil && *c.TopK == -1 {
		*c.TopK = 0
	}
}

// part reads {type: text, text} or {type: image_url, image_url: {url}}. A picture is appended to p.pictures, and the
// part gets a placeholder.
func (p *chatRequest) part(raw stdjson.RawMessage) (part chat.Part, err error) {
	o, err := strictjson.Parse("part", raw)
	if err != nil {
		return part, err
	}
	kind := ""
	switch o.Get("type", &kind); kind {
	case "text":
		if o.Get("text", &part.Text); !o.Has("text") {
			o.Failf("text", "it is missing")
		}
	case "image_url":
		picture := &encodedPicture{}
		at := o.Sub("image_url")
		if at == nil {
			at = o.None("image_url")
		}
		if raw := at.Raw("url"); raw == nil {
			at.Failf("url", "it is missing: a data URL")
		} else if err := json.Unmarshal(raw, picture); err != nil {
			at.Failf("url", "%w", err)
		}
		at.Close(strictjson.Harmless{"detail": nil})
		p.pictures = append(p.pictures, picture)
		part.Image = placeholder
	default:
		o.Failf("type", "%q is not supported; text and image_url are", kind)
	}
	o.Close()
	return part, o.Err()
}

// chatAnswer is OpenAI's chat.completion, or one piece of it.
type chatAnswer struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  *chatMessage  `json:"message,omitempty"`
	Delta    *chatMessage  `json:"delta,omitempty"`
	LogProbs *chatLogProbs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

type chatMessage struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type chatLogProbs struct {
	Content []tokenLogProb `json:"content"`
}

type tokenLogProb struct {
	Token   string  `json:"token"`
	ID      int64   `json:"token_id"` // not in OpenAI's format: several tokens may have the same text
	LogProb float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
	Top     []int   `json:"top_logprobs"`
}

type chatUsage struct {
	Prompt     int            `json:"prompt_tokens"`
	Completion int            `json:"completion_tokens"`
	Total      int            `json:"total_tokens"`
	Details    map[string]int `json:"prompt_tokens_details"`
}

// openAIFinish returns one of OpenAI's finish reasons, because clients know no others.
func openAIFinish(a *chat.Answer) *string {
	finish := a.Finish
	if finish == chat.FinishContext {
		finish = chat.FinishLength
	}
	return &finish
}

func usageOf(u chat.Usage) *chatUsage {
	return &chatUsage{u.Prompt, u.Completion, u.Prompt + u.Completion, map[string]int{"cached_tokens": u.Cached}}
}

// logProbsOf returns the log probabilities of an answer, with the text of each token.
func logProbsOf(m ChatModel, a *chat.Answer) (*chatLogProbs, error) {
	l := &chatLogProbs{Content: []tokenLogProb{}}
	for i, id := range a.TokenIDs {
		text, err := m.Decode([]int64{id})
		if err != nil {
			return nil, err
		}
		l.Content = append(l.Content, tokenLogProb{text, id, math.Max(a.LogProbs[i], -math.MaxFloat32), nil, []int{}})
	}
	return l, nil
}

// chatError maps errors of a model to a status.
func chatError(err error) error {
	if errors.Is(err, chat.ErrRequest) {
		return badRequest("%v", err)
	}
	return fmt.Errorf("chat: %w", err)
}
