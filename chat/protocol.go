package chat

import (
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"

	"assay/data"
)

// errNonsense is wrapped by errors about answers that do not follow the protocol.
var errNonsense = errors.New("the answer does not follow the protocol")

// FinishRefusal means that the model refused to answer; Text holds its reason.
const FinishRefusal = "refusal"

// request builds a request. Options that OpenAI's protocol lacks have the names that vLLM, SGLang and transformers
// use.
func (r *Remote) request(messages []Message, o Options) (
	p openai.ChatCompletionNewParams, options []option.RequestOption, err error) {
	p.Model = r.server.Model
	for i, m := range messages {
		turn, err := messageOf(m)
		if err != nil {
			return p, nil, fmt.Errorf("%w: message %d: %w", ErrRequest, i, err)
		}
		p.Messages = append(p.Messages, turn)
	}
	if len(messages) == 0 {
		return p, nil, fmt.Errorf("%w: no messages", ErrRequest)
	}
	if o.MaxNewTokens < 0 || o.Seed > math.MaxInt64 {
		return p, nil, fmt.Errorf("%w: %d new tokens, seed %d: want 0 or more, and a seed below 2^63", ErrRequest,
			o.MaxNewTokens, o.Seed)
	}
	if o.MaxNewTokens > 0 {
		options = append(options, option.WithJSONSet(r.server.LimitField, o.MaxNewTokens))
	}
	if o.Temperature != nil {
		p.Temperature = openai.Float(*o.Temperature)
	}
	if o.TopP != nil {
		p.TopP = openai.Float(*o.TopP)
	}
	if o.Temperature == nil || *o.Temperature > 0 { // greedy decoding draws nothing
		p.Seed = openai.Int(int64(o.Seed))
	}
	if len(o.Stop) > 0 {
		p.Stop = openai.ChatCompletionNewParamsStopUnion{OfStringArray: o.Stop}
	}
	if o.LogProbs {
		p.Logprobs = openai.Bool(true)
	}
	if o.TopK != nil {
		options = append(options, option.WithJSONSet("top_k", *o.TopK))
	}
	if o.RepetitionPenalty != nil {
		options = append(options, option.WithJSONSet("repetition_penalty", *o.RepetitionPenalty))
	}
	if o.Grammar != nil {
		if err := r.Follows(o.Grammar); err != nil {
			return p, nil, err
		}
		options = append(options, option.WithJSONSet("response_format", map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "answer", "strict": true, "schema": o.Grammar.Schema()}}))
	}
	if len(o.StopTokenIDs) > 0 {
		options = append(options, option.WithJSONSet("stop_token_ids", o.StopTokenIDs))
	}
	return p, options, nil
}

func messageOf(m Message) (turn openai.ChatCompletionMessageParamUnion, err error) {
	var text strings.Builder
	pictures := false
	for _, part := range m.Content {
		text.WriteString(part.Text)
		pictures = pictures || part.Image != nil
	}
	if err := m.CheckRole(); err != nil {
		return turn, err
	}
	switch {
	case len(m.Content) == 0:
		return turn, errors.New("empty content")
	case pictures && m.Role != "user":
		return turn, fmt.Errorf("a picture in a message of role %q: servers accept pictures only from the user", m.Role)
	case m.Role == "system":
		return openai.SystemMessage(text.String()), nil
	case m.Role == "assistant":
		return openai.AssistantMessage(text.String()), nil
	case !pictures:
		return openai.UserMessage(text.String()), nil
	}
	parts := make([]openai.ChatCompletionContentPartUnionParam, len(m.Content))
	for i, part := range m.Content {
		if part.Image == nil {
			parts[i] = openai.TextContentPart(part.Text)
			continue
		}
		url, err := dataURL(part.Image)
		if err != nil {
			return turn, fmt.Errorf("picture %d: %w", i, err)
		}
		parts[i] = openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: url})
	}
	return openai.UserMessage(parts), nil
}

// encoder writes PNG. Pictures are sent once and not stored, so speed matters more than size.
var encoder = png.Encoder{CompressionLevel: png.BestSpeed, BufferPool: &buffers{}}

// buffers implements png.EncoderBufferPool.
type buffers struct{ sync.Pool }

func (b *buffers) Get() *png.EncoderBuffer {
	e, _ := b.Pool.Get().(*png.EncoderBuffer)
	return e // nil if the pool is empty: the encoder allocates one
}

func (b *buffers) Put(e *png.EncoderBuffer) { b.Pool.Put(e) }

// dataURL encodes a picture as PNG in a data URL: unlike JPEG, it is lossless.
func dataURL(p *data.Picture) (string, error) {
	if err := p.Check(); err != nil {
		return "", err
	}
	m := image.NewNRGBA(image.Rect(0, 0, p.Width, p.Height))
	for i, j := 0, 0; i < len(p.Pix); i, j = i+3, j+4 {
		m.Pix[j], m.Pix[j+1], m.Pix[j+2], m.Pix[j+3] = p.Pix[i], p.Pix[i+1], p.Pix[i+2], 255
	}
	var url strings.Builder
	url.WriteString("data:image/png;base64,")
	text := base64.NewEncoder(base64.StdEncoding, &url)
	if err := encoder.Encode(text, m); err != nil {
		return "", err
	}
	err := text.Close()
	return url.String(), err
}

// usageOf reads the usage counts of an answer, if they are present and consistent.
func usageOf(c *openai.ChatCompletion) *counted {
	u := c.Usage
	n := Usage{
		Prompt: int(u.PromptTokens), Completion: int(u.CompletionTokens), Cached: int(u.PromptTokensDetails.CachedTokens),
	}
	known := u.JSON.PromptTokens.Valid() && u.JSON.CompletionTokens.Valid() &&
		n.Prompt >= 0 && n.Completion >= 0 && n.Cached >= 0 && n.Cached <= n.Prompt
	if !known {
		n = Usage{}
	}
	return &counted{n, known}
}

// answer reads an answer.
func (r *Remote) answer(c *openai.ChatCompletion, o Options) (*Answer, error) {
	switch {
	case !c.JSON.Choices.Valid() || len(c.Choices) != 1:
		return nil, fmt.Errorf("%w: want one choice, not %d", errNonsense, len(c.Choices))
	case !c.JSON.Model.Valid():
		return nil, fmt.Errorf("%w: it does not name its model", errNonsense)
	case c.Model != r.server.Model && !slices.Contains(r.server.AnswersAs, c.Model):
		return nil, fmt.Errorf("%w: the answer comes from %q: list that name in answers_as if it is the same model",
			ErrUnavailable, c.Model)
	}
	choice := c.Choices[0]
	message := choice.Message
	a := &Answer{Text: message.Content, Finish: choice.FinishReason, Usage: usageOf(c).Usage}
	switch {
	case !choice.JSON.Message.Valid() || !choice.JSON.FinishReason.Valid():
		return nil, fmt.Errorf("%w: a choice without message or finish_reason", errNonsense)
	case message.JSON.Content.Valid():
	case message.JSON.Refusal.Valid():
		a.Text, a.Finish = message.Refusal, FinishRefusal
	case choice.FinishReason == FinishStop: // with other finish reasons there may be no text
		return nil, fmt.Errorf("%w: a message without content", errNonsense)
	}
	if o.LogProbs {
		if !choice.Logprobs.JSON.Content.Valid() {
			return nil, fmt.Errorf("%w: logprobs were requested, but the answer has none", ErrUnavailable)
		}
		for _, token := range choice.Logprobs.Content {
			if !token.JSON.Logprob.Valid() {
				return nil, fmt.Errorf("%w: a token without logprob", errNonsense)
			}
			a.LogProbs = append(a.LogProbs, token.Logprob)
		}
	}
	return a, nil
}
