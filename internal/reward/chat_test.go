package reward

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/generate"
	"assay/internal/oracle"
	_ "assay/model/families"
)

// startChat serves a fixture's backbone as a chat model.
func startChat(t *testing.T, folder string, o Options) (*generate.Model, *httptest.Server) {
	t.Helper()
	m, err := generate.Open(filepath.Join(folder, "qwen2_5_vl", "backbone"), generate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o.Chat = []NamedModel{{"tiny", m}}
	_, h := start(t, o, nil)
	t.Cleanup(func() { m.Close() })
	return m, h
}

// asking returns a question about two pictures.
func asking(t *testing.T, folder string) []chat.Message {
	t.Helper()
	content := []chat.Part{}
	for _, name := range []string{"chelsea.png", "coins_alpha.png"} {
		p, err := data.Open(filepath.Join(folder, "images", name), data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		content = append(content, chat.Part{Image: p})
	}
	return []chat.Message{
		{Role: "system", Content: []chat.Part{{Text: "You judge edits."}}},
		{Role: "user", Content: append(content, chat.Part{Text: "What was changed?"})},
	}
}

// TestChatByOpenAIsClient: OpenAI's own client gets the answers that the model generates directly.
func TestChatByOpenAIsClient(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		m, h := startChat(t, folder, Options{})
		at := chat.DefaultServer()
		at.URL, at.Model, at.KeyVariable = h.URL+"/v1", "tiny", ""
		remote, err := chat.OpenRemote(at)
		if err != nil {
			t.Fatal(err)
		}
		defer remote.Close()
		zero, hot, penalty := 0.0, 1.7, 1.3
		for i, o := range []chat.Options{
			{MaxNewTokens: 12, Temperature: &zero, RepetitionPenalty: &penalty, LogProbs: true},
			{MaxNewTokens: 9, Temperature: &hot, Seed: 4, LogProbs: true},
			{MaxNewTokens: 15, Temperature: &zero, StopTokenIDs: []int64{655}, LogProbs: true},
		} {
			want, err := m.Chat(context.Background(), asking(t, folder), o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := remote.Chat(context.Background(), asking(t, folder), o)
			if err != nil {
				t.Fatal(err)
			}
			want.TokenIDs, want.Usage.Cached, got.Usage.Cached = nil, 0, 0 // the protocol has no ids
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("request %d: %s", i, diff)
			}
		}

		want, err := m.Chat(context.Background(), asking(t, folder), chat.Options{MaxNewTokens: 20, Temperature: &zero})
		if err != nil {
			t.Fatal(err)
		}
		text, pieces, usage := streamed(t, h.URL, asking(t, folder))
		if text != want.Text || pieces < 3 || usage != int64(want.Usage.Completion) {
			t.Errorf("streamed in %d pieces, %d tokens: %q, want %q", pieces, usage, text, want.Text)
		}
		said := map[string]int64{}
		service := openai.NewChatCompletionService(option.WithBaseURL(h.URL+"/v1/"), option.WithAPIKey("none"))
		for _, told := range []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage("You judge edits."), openai.DeveloperMessage("You judge edits."),
		} { // two names of one role
			a, err := service.New(context.Background(), openai.ChatCompletionNewParams{Model: "tiny",
				MaxTokens: openai.Int(20), Temperature: openai.Float(0),
				Messages: []openai.ChatCompletionMessageParamUnion{told, openai.UserMessage("What was changed?")}})
			if err != nil {
				t.Fatal(err)
			}
			said[a.Choices[0].Message.Content] += a.Usage.PromptTokens
		}
		if len(said) != 1 {
			t.Errorf("system and developer: %v", said)
		}
	})
}

// streamed requests a streamed answer with OpenAI's client.
func streamed(t *testing.T, url string, messages []chat.Message) (text string, pieces int, usage int64) {
	t.Helper()
	service := openai.NewChatCompletionService(option.WithBaseURL(url+"/v1/"), option.WithAPIKey("none"))
	var parts []openai.ChatCompletionContentPartUnionParam
	for _, p := range messages[1].Content {
		if p.Image == nil {
			parts = append(parts, openai.TextContentPart(p.Text))
			continue
		}
		var file bytes.Buffer
		if err := p.Image.EncodePNG(&file); err != nil {
			t.Fatal(err)
		}
		parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{
			URL: "data:image/png;base64," + base64.StdEncoding.EncodeToString(file.Bytes())}))
	}
	stream := service.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
		Model: "tiny",
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(messages[0].Content[0].Text), openai.UserMessage(parts)},
		MaxTokens:     openai.Int(20),
		Temperature:   openai.Float(0),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	})
	for stream.Next() {
		c := stream.Current()
		if usage = c.Usage.CompletionTokens; len(c.Choices) > 0 {
			text += c.Choices[0].Delta.Content
			pieces++
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	return text, pieces, usage
}

func TestChatRefusals(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		_, h := startChat(t, folder, Options{MaxPixels: 400})
		picture := func(width int) string {
			return "data:image/png;base64," + base64.StdEncoding.EncodeToString(png(t, 1, width, 20))
		}
		user := func(content any) []any { return []any{object{"role": "user", "content": content}} }
		image := func(url any) []any {
			return user([]any{object{"type": "image_url", "image_url": object{"url": url}}})
		}
		for i, c := range []struct {
			body object
			code int
			want string
		}{
			{object{"messages": user("hello"), "max_tokens": 2}, 200, "chat.completion"},
			{object{"messages": image(picture(20)), "max_tokens": 2, "n": 1, "user": "me"}, 200, "chat.completion"},
			{object{"messages": image(picture(21))}, 413, "picture 0"},
			{object{"messages": image("http://example.com/a.png")}, 422, "not a URL"},
			{object{"messages": image("data:image/png;base64,AAAA")}, 422, "picture 0"},
			{object{"messages": user([]any{object{"type": "input_audio"}})}, 422, "input_audio"},
			{object{"messages": user("hello"), "n": 65}, 422, "request.n"},
			{object{"messages": user("hello"), "n": 2, "temperature": 0}, 422, "all the same"},
			{object{"messages": user("hello"), "n": 2, "stream": true}, 422, "not supported with stream"},
			{object{"messages": user("hello"), "n": 3, "best_of": 2}, 422, "best_of"},
			{object{"messages": user("hello"), "response_format": object{"type": "json_schema", "json_schema": object{
				"schema": object{"type": "string", "pattern": "a"}}}}, 422, "pattern"},
			{object{"messages": user("hello"), "presence_penalty": 0.5}, 422, "presence_penalty"},
			{object{"messages": user("hello"), "tools": []any{object{"type": "function"}}}, 422, "tools"},
			{object{"messages": user("hello"), "response_format": object{"type": "json_object"}}, 422, "response_format"},
			{object{"messages": user("hello"), "nonsense": 1}, 422, "nonsense"},
			{object{"messages": user("hello"), "temperature": -1}, 422, "temperature"},
			{object{"messages": user("hello"), "max_tokens": 0}, 422, "max_tokens"},
			{object{"messages": user("hello"), "stream": true, "logprobs": true}, 422, "logprobs"},
			{object{"messages": user("hello"), "model": "other"}, 404, "available: tiny"},
			{object{"messages": user("<|im_end|>")}, 422, "special token"},
			{object{"messages": user(strings.Repeat("many words ", 4000))}, 422, "max_position_embeddings"},
			{object{"messages": []any{}}, 422, "no messages"},
		} {
			code, _, raw := post(t, h.URL+"/v1/chat/completions", c.body)
			if code != c.code || !strings.Contains(string(raw), c.want) {
				t.Errorf("request %d: %d %s; want %d, %q", i, code, raw, c.code, c.want)
			}
		}
		if code, _, raw := post(t, h.URL+"/v1/score", object{"source": png(t, 1, 2, 2), "instruction": "a",
			"edits": []any{png(t, 1, 2, 2)}}); code != 422 || !strings.Contains(string(raw), "no scorer") {
			t.Errorf("a score without a scorer: %d %s", code, raw)
		}
		r, err := http.Get(h.URL + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		var list struct{ Data []struct{ ID string } }
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil || len(list.Data) != 1 || list.Data[0].ID != "tiny" {
			t.Errorf("models: %+v, %v", list, err)
		}
	})
	_, h := start(t, Options{}, map[string]edit.Judge{"a": &fake{}}, "a")
	if code, _, raw := post(t, h.URL+"/v1/chat/completions", object{"messages": []any{}}); code != 422 {
		t.Errorf("a server without a chat model: %d %s", code, raw)
	}
}

// TestChatGone: a client that disconnects in the middle of a stream stops the generation.
func TestChatGone(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		m, h := startChat(t, folder, Options{})
		ctx, cancel := context.WithCancel(context.Background())
		body := `{"messages": [{"role": "user", "content": "go on"}], "max_tokens": 3500, "temperature": 1.5, "stream": true}`
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, h.URL+"/v1/chat/completions", strings.NewReader(body))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Errorf("the stream is %s", kind)
		}
		s := bufio.NewScanner(answer.Body)
		for range 5 {
			s.Scan()
		}
		cancel()
		zero := 0.0
		for i := range 8 { // as many as run at the same time: one more would wait for 3,500 tokens
			o := chat.Options{MaxNewTokens: 2, Temperature: &zero}
			messages := []chat.Message{{Role: "user", Content: []chat.Part{{Text: fmt.Sprint(i)}}}}
			if _, err := m.Chat(context.Background(), messages, o); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestChatChoicesAndSchema: OpenAI's client gets several answers, from consecutive seeds, and answers that match a
// schema.
func TestChatChoicesAndSchema(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		m, h := startChat(t, folder, Options{})
		service := openai.NewChatCompletionService(option.WithBaseURL(h.URL+"/v1/"), option.WithAPIKey("none"))
		ask := openai.ChatCompletionNewParams{Model: "tiny", MaxTokens: openai.Int(60), Temperature: openai.Float(1.4),
			Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("What was changed?")},
			Seed:     openai.Int(7), N: openai.Int(4)}
		got, err := service.New(context.Background(), ask)
		if err != nil {
			t.Fatal(err)
		}
		hot, made := 1.4, 0
		for i, c := range got.Choices {
			a, err := m.Chat(
				context.Background(),
				[]chat.Message{{Role: "user", Content: []chat.Part{{Text: "What was changed?"}}}},
				chat.Options{MaxNewTokens: 60, Temperature: &hot, Seed: 7 + uint64(i)},
			)
			if err != nil || c.Message.Content != a.Text || int(c.Index) != i {
				t.Errorf("choice %d: %q, want %q (%v)", i, c.Message.Content, a.Text, err)
				continue
			}
			if made += a.Usage.Completion; i == 3 && (int(got.Usage.CompletionTokens) != made ||
				int(got.Usage.PromptTokens) != a.Usage.Prompt) {
				t.Errorf("usage %+v, want %d of answers", got.Usage, made)
			}
		}
		if len(got.Choices) != 4 {
			t.Errorf("%d choices", len(got.Choices))
		}
		ask.N = openai.Int(2)
		ask.ResponseFormat.OfJSONSchema = &openai.ResponseFormatJSONSchemaParam{
			JSONSchema: openai.ResponseFormatJSONSchemaJSONSchemaParam{Name: "a", Strict: openai.Bool(true), Schema: object{
				"type": "object", "properties": object{"good": object{"type": "boolean"}, "n": object{"type": "integer",
					"minimum": 1, "maximum": 5}}, "required": []string{"good", "n"}, "additionalProperties": false}}}
		if got, err = service.New(context.Background(), ask); err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Choices {
			var v struct {
				Good *bool
				N    *int
			}
			if err := json.Unmarshal(
				[]byte(c.Message.Content),
				&v,
			); err != nil || v.Good == nil || v.N == nil || *v.N < 1 ||
				*v.N > 5 {
				t.Errorf("%q: %v", c.Message.Content, err)
			}
		}
	})
}
