package reward

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"assay/edit"
)

// schemas validates values against the schemas of openapi.json, and requires that every field is described.
type schemas struct{ doc map[string]any }

func (s *schemas) resolve(of any) map[string]any {
	m, _ := of.(map[string]any)
	for ref, ok := m["$ref"].(string); ok; ref, ok = m["$ref"].(string) {
		var at any = s.doc
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[name]
		}
		m = at.(map[string]any)
	}
	return m
}

// check returns the fields of v, an object, that the schema describes.
func (s *schemas) check(of, v any) (known map[string]bool, err error) {
	m, known := s.resolve(of), map[string]bool{}
	if m == nil {
		return nil, fmt.Errorf("%v has no schema", v)
	}
	if err := checkType(m["type"], v); err != nil {
		return nil, err
	}
	if c, ok := m["const"]; ok && !reflect.DeepEqual(c, v) {
		return nil, fmt.Errorf("%v is not %v", v, c)
	}
	if all, ok := m["enum"].([]any); ok && !slices.Contains(all, v) {
		return nil, fmt.Errorf("%v is none of %v", v, all)
	}
	if list, ok := v.([]any); ok {
		for i, one := range list {
			if m["items"] == nil {
				break
			}
			if err := s.whole(m["items"], one); err != nil {
				return nil, fmt.Errorf("%d: %w", i, err)
			}
		}
	}
	if object, ok := v.(map[string]any); ok {
		if err := s.fields(m, object, known); err != nil {
			return nil, err
		}
	}
	parts, _ := m["allOf"].([]any)
	if of, ok := m["oneOf"].([]any); ok {
		fit, errs := 0, []error{}
		for _, one := range of {
			also, err := s.check(one, v)
			if err != nil {
				errs = append(errs, err)
				continue
			}
			fit++
			maps.Copy(known, also)
		}
		if fit != 1 {
			return nil, fmt.Errorf("%v fits %d of %d: %v", v, fit, len(of), errs)
		}
	}
	for _, one := range parts {
		also, err := s.check(one, v)
		if err != nil {
			return nil, err
		}
		maps.Copy(known, also)
	}
	return known, nil
}

// fields checks the fields of an object, and adds described fields to known.
func (s *schemas) fields(m, object map[string]any, known map[string]bool) error {
	required, _ := m["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Errorf("%v has no %v", object, name)
		}
	}
	properties, _ := m["properties"].(map[string]any)
	for name, value := range object {
		of := properties[name]
		if of == nil {
			of = m["additionalProperties"]
		}
		if of == nil {
			continue
		}
		known[name] = true
		if err := s.whole(of, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// whole is check, and requires that all fields of the value are described.
func (s *schemas) whole(of, v any) error {
	known, err := s.check(of, v)
	if object, ok := v.(map[string]any); ok && err == nil {
		for name := range object {
			if !known[name] {
				return fmt.Errorf("%s is not described", name)
			}
		}
	}
	return err
}

func checkType(want, v any) error {
	if want == nil {
		return nil
	}
	names := []any{want}
	if several, ok := want.([]any); ok {
		names = several
	}
	is := "null"
	switch v := v.(type) {
	case bool:
		is = "boolean"
	case string:
		is = "string"
	case []any:
		is = "array"
	case map[string]any:
		is = "object"
	case float64:
		if is = "number"; v == math.Trunc(v) && slices.Contains(names, any("integer")) {
			is = "integer"
		}
	}
	if !slices.Contains(names, any(is)) {
		return fmt.Errorf("%v is of type %s, not %v", v, is, want)
	}
	return nil
}

// TestAnswersAsDescribed: the responses of the handlers match openapi.json, field by field.
func TestAnswersAsDescribed(t *testing.T) {
	s := &schemas{}
	if err := json.Unmarshal([]byte(openapi), &s.doc); err != nil {
		t.Fatal(err)
	}
	good := &named{print: "g1", info: edit.Info{Range: edit.Range{0, 10}, Sources: 1,
		Dimensions: []edit.DimensionInfo{{Name: "twice"}}}}
	wide := &named{print: "w1", info: edit.Info{Range: edit.NoRange(), Sources: edit.Any}}
	wide.failing = 1
	h := &heavy{}
	v, err := Replicate(1, 0, h.open)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	judges := map[string]edit.Judge{"good": good, "wide": wide, "heavy": v}
	_, server := start(t, Options{}, judges, "good", "wide", "heavy")
	picture, white := png(t, 51, 5, 5), png(t, 255, 5, 5)
	edits := object{"source": picture, "instruction": "x", "edits": []any{picture, white, picture[:40]}}
	several := edits.with(object{"rewards": []any{object{"name": "good", "dimension": "twice"}, object{"name": "wide"}},
		"combine": "raw", "on_error": "mean", "id": "one", "edits": []any{picture, picture[:40]}})
	turn := object{"text": "x", "image_b64": picture}
	for _, c := range []struct {
		method, path string
		body         any
		code         int
	}{
		{"post", "/v1/score", edits, 200},
		{"post", "/v1/score", edits.with(object{"combine": "zscore"}), 200},
		{"post", "/v1/score", edits.with(object{"scorer": "wide", "on_error": "null"}), 200},
		{"post", "/v1/score", several, 200},
		{"post", "/v1/score", several, 200},
		{"post", "/v1/score", several.with(object{"instruction": "y"}), 409},
		{"post", "/v1/score", edits.with(object{"fingerprint": "old"}), 412},
		{"post", "/v1/score", edits.with(object{"edits": []any{}}), 422},
		{"post", "/v1/gradient", edits.with(object{"scorer": "nobody"}), 422},
		{"post", "/score", object{"requests": []any{object{"history": []any{turn, turn}, "required_rewards": []any{"good",
			"nobody"}}}}, 200},
		{"post", "/compute", flowBody([]string{"x"}, [][]byte{picture}, [][][]byte{{picture}}), 200},
		{"post", "/compute", flowBody([]string{"x"}, [][]byte{picture[:40]}, [][][]byte{{picture}}), 200},
		{"get", "/v1/judges", nil, 200},
		{"get", "/v1/limits", nil, 200},
		{"get", "/rewards", nil, 200},
		{"get", "/health", nil, 200},
		{"get", "/readyz", nil, 200},
		{"post", "/v1/sleep", nil, 200},
		{"get", "/health", nil, 200},
		{"post", "/v1/wake", nil, 200},
	} {
		t.Run(fmt.Sprintf("%s %s %d", c.method, c.path, c.code), func(t *testing.T) {
			raw, _ := json.Marshal(c.body)
			r, _ := http.NewRequestWithContext(t.Context(), strings.ToUpper(c.method), server.URL+c.path,
				strings.NewReader(string(raw)))
			code, _, body := send(t, r)
			var answer any
			if err := json.Unmarshal([]byte(body), &answer); err != nil || code != c.code {
				t.Fatalf("got %d %s (%v), want %d", code, body, err, c.code)
			}
			at := s.doc["paths"].(map[string]any)[c.path].(map[string]any)[c.method].(map[string]any)
			answers, _ := at["responses"].(map[string]any)[fmt.Sprint(code)].(map[string]any)
			content, _ := answers["content"].(map[string]any)
			described, _ := content["application/json"].(map[string]any)
			if err := s.whole(described["schema"], answer); err != nil {
				t.Errorf("%v in %s", err, body)
			}
		})
	}
}

// TestRequestsAsDescribed: openapi.json has exactly the fields that requests may have.
func TestRequestsAsDescribed(t *testing.T) {
	s := &schemas{}
	if err := json.Unmarshal([]byte(openapi), &s.doc); err != nil {
		t.Fatal(err)
	}
	for path, request := range map[string]any{"/v1/score": scoreRequest{}, "/v1/gradient": gradientRequest{}} {
		schema := s.resolve(s.at("paths", path, "post", "requestBody", "content", "application/json", "schema"))
		pair := s.at("paths", path, "post", "requestBody", "content", "application/json", "schema", "properties", "pairs",
			"items")
		for what, c := range map[string]struct {
			of     any
			schema map[string]any
			none   string // a field that this request does not use
		}{
			path:           {request, schema, ""},
			path + " pair": {pairRequest{}, s.resolve(pair), map[string]string{"/v1/gradient": "group"}[path]},
			path + " reward": {rewardRequest{}, s.resolve(map[string]any{"$ref": "#/components/schemas/Reward"}),
				""},
		} {
			got := slices.Sorted(maps.Keys(c.schema["properties"].(map[string]any)))
			want := slices.DeleteFunc(jsonNames(reflect.TypeOf(c.of)), func(name string) bool { return name == c.none })
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("%s: got the fields %v, want %v", what, got, want)
			}
		}
	}
}

// at returns a part of the document.
func (s *schemas) at(names ...string) (v any) {
	v = s.doc
	for _, name := range names {
		v = v.(map[string]any)[name]
	}
	return v
}

// jsonNames returns the JSON names of the fields of a struct.
func jsonNames(of reflect.Type) (names []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		if f.Anonymous {
			names = append(names, jsonNames(f.Type)...)
		} else {
			names = append(names, f.Tag.Get("json"))
		}
	}
	return names
}
