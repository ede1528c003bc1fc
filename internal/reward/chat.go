package reward

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"assay/chat"
	"assay/data"
)

// ChatModel answers /v1/chat/completions. *generate.Model is one.
type ChatModel interface {
	chat.Model
	// Stream is Chat, and passes the text to piece as it is generated.
	Stream(ctx context.Context, messages []chat.Message, o chat.Options, piece func(string) error) (*chat.Answer, error)
	// Decode converts token ids to text.
	Decode(ids []int64) (string, error)
}

// Sleeper is a chat model whose weights can be unloaded from the device and reloaded.
type Sleeper interface {
	Sleep() error
	Wake() error
}

// NamedModel is a chat model and the name by which requests select it.
type NamedModel struct {
	Name string
	ChatModel
}

// Limits on chat requests in flight, and on the pictures of each.
const (
	maxChats    = 64
	maxPictures = 64
)

var placeholder = &data.Picture{}

// checkChat rejects names of chat models that are empty, contain spaces or repeat.
func checkChat(models []NamedModel) error {
	seen := map[string]bool{}
	for _, m := range models {
		if m.Name == "" || strings.ContainsAny(m.Name, " \t\r\n") || seen[m.Name] {
			return fmt.Errorf("chat model name %q: want a unique name without spaces", m.Name)
		}
		seen[m.Name] = true
	}
	return nil
}

// chatModel finds a chat model by name; "" is the first one.
func (s *Server) chatModel(name string) (*NamedModel, error) {
	var names []string
	for i := range s.o.Chat {
		if m := &s.o.Chat[i]; m.Name == name || name == "" {
			return m, nil
		}
		names = append(names, s.o.Chat[i].Name)
	}
	if len(names) == 0 {
		return nil, apiErrorf(http.StatusUnprocessableEntity, "unknown_model",
			"this server has no chat model: start it with --chat-backbone")
	}
	return nil, apiErrorf(http.StatusNotFound, "unknown_model", "no model %q; available: %s", name,
		strings.Join(names, ", "))
}

// listModels lists the chat models in OpenAI's format.
func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) error {
	list := []map[string]any{}
	for _, m := range s.o.Chat {
		list = append(list, map[string]any{"id": m.Name, "object": "model", "created": 0, "owned_by": "assay"})
	}
	return writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// postChat answers POST /v1/chat/completions, in OpenAI's protocol.
func (s *Server) postChat(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.chatModel(""); err != nil {
		return err
	}
	select {
	case s.chats <- struct{}{}:
		defer func() { <-s.chats }()
	default:
		return &busyError{time.Second, fmt.Sprintf("%d chat requests are already in progress", maxChats)}
	}
	var raw jsontext.Value
	held, err := s.front.bodies.read(w, r, &raw, nil)
	if err != nil {
		return err
	}
	defer held.release()
	p, err := parseChat(raw)
	if err != nil {
		return badRequest("%v", err)
	}
	raw = nil
	m, err := s.chatModel(p.model)
	if err != nil {
		return err
	}
	leave, err := s.engine.enterFor(r.Context(), func(v sleeper) bool { return v.scorer == nil && v.name == m.Name })
	if err != nil {
		return err
	}
	defer leave()
	if err := s.engine.clients.charge(r.Context(), p.several.Made()); err != nil {
		return err
	}
	if err := s.engine.decoder.chat(r.Context(), p); err != nil {
		return err
	}
	answer := chatAnswer{ID: "chatcmpl-" + rand.Text(), Created: time.Now().Unix(), Model: m.Name}
	if p.stream {
		return s.stream(w, r, m, p, answer)
	}
	choices, used, err := chat.Choices(r.Context(), m, p.messages, p.options, p.several)
	if err != nil {
		return chatError(err)
	}
	answer.Object, answer.Usage = "chat.completion", usageOf(used)
	for i, c := range choices {
		choice := chatChoice{Index: i, Message: &chatMessage{"assistant", &c.Text}, Finish: openAIFinish(c.Answer)}
		if p.options.LogProbs {
			if choice.LogProbs, err = logProbsOf(m, c.Answer); err != nil {
				return err
			}
		}
		answer.Choices = append(answer.Choices, choice)
	}
	return writeJSON(w, http.StatusOK, answer)
}

// chat decodes the pictures of a chat request, within the limits of the server.
func (d *decoder) chat(ctx context.Context, p *chatRequest) error {
	if len(p.pictures) > maxPictures {
		return tooMany("%d pictures, at most %d per request", len(p.pictures), maxPictures)
	}
	var bytes int64
	for i, picture := range p.pictures {
		pixels, err := d.size(picture)
		if err != nil {
			return prefixError(fmt.Sprintf("picture %d", i), err)
		}
		if bytes += pictureBytes * pixels; bytes > pictureBytes*4*d.limits.MaxPixels {
			return apiErrorf(http.StatusRequestEntityTooLarge, "too_large", "the pictures have more than %d pixels in total",
				4*d.limits.MaxPixels)
		}
	}
	next := 0
	for _, m := range p.messages {
		for k := range m.Content {
			if m.Content[k].Image == nil {
				continue
			}
			select {
			case d.free <- struct{}{}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			picture, _, err := d.decode(ctx, p.pictures[next])
			<-d.free
			if err != nil {
				return prefixError(fmt.Sprintf("picture %d", next), err)
			}
			m.Content[k].Image, p.pictures[next], next = picture, nil, next+1
		}
	}
	return nil
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w     http.ResponseWriter
	to    *http.ResponseController
	begun bool
}

// send writes one event as JSON.
func (e *eventWriter) send(v any) error {
	line, err := encodeJSON(v)
	if err != nil {
		return err
	}
	return e.write(bytes.TrimSpace(line))
}

func (e *eventWriter) write(line []byte) error {
	if !e.begun {
		e.w.Header().Set("Content-Type", "text/event-stream")
		e.w.WriteHeader(http.StatusOK)
		e.begun = true
	}
	e.to.SetWriteDeadline(deadline(int64(len(line)))) // no effect in tests without a connection
	if _, err := e.w.Write(slices.Concat([]byte("data: "), line, []byte("\n\n"))); err != nil {
		return err
	}
	return e.to.Flush()
}

// stream sends server-sent events, one for each piece of text. An error after the first event is also sent as an
// event.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, m *NamedModel, p *chatRequest, a chatAnswer) error {
	if p.options.LogProbs {
		return badRequest("logprobs: not supported with stream")
	}
	if p.several.Made() > 1 {
		return badRequest("n, best_of: several answers are not supported with stream")
	}
	a.Object = "chat.completion.chunk"
	events := eventWriter{w: w, to: http.NewResponseController(w)}
	piece := func(delta chatMessage, finish *string) error {
		a.Choices = []chatChoice{{Delta: &delta, Finish: finish}}
		return events.send(a)
	}
	role := "assistant"
	full, err := m.Stream(r.Context(), p.messages, p.options, func(text string) error {
		err := piece(chatMessage{role, &text}, nil)
		role = ""
		return err
	})
	if err != nil && !events.begun {
		return chatError(err)
	}
	if err != nil {
		f := s.engine.metrics.countError(chatError(err))
		events.send(map[string]any{"error": f})
		return nil
	}
	if err := piece(chatMessage{Role: role}, openAIFinish(full)); err != nil {
		return nil // the client is gone
	}
	if p.usage {
		a.Choices, a.Usage = []chatChoice{}, usageOf(full.Usage)
		if err := events.send(a); err != nil {
			return nil
		}
	}
	events.write([]byte("[DONE]"))
	return nil
}
