package strictjson

import (
	"strings"
	"testing"
)

const sample = `{"layers": 3, "name": "x", "none": null, "rate": 0.0, "on": true, "inner": {"width": "4", "odd": ` +
	`[1, 2]}, "new": {"a": 1}}`

func TestEveryKeyCounts(t *testing.T) {
	o, err := Parse("config.json", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	layers, width, absent := 0, 7, 5
	o.Get("layers", &layers)
	o.Get("absent", &absent)
	o.Opt("none", &absent)
	inner := o.Sub("inner")
	inner.Get("width", &width)
	inner.Close()
	o.Close(Harmless{"name": nil, "rate": {0}, "on": {false, nil}})
	if layers != 3 || absent != 5 || width != 7 {
		t.Errorf("got %d, %d, %d, want 3, 5, 7", layers, absent, width)
	}
	want := []string{
		`config.json: inner.width: "4": want int`,
		`config.json: inner: unknown key(s) "odd" ([1,2])`,
		`config.json: on: true is not supported; false or null is`,
		`config.json: unknown key(s) "new" ({"a":1})`,
	}
	got := strings.Split(o.Err().Error(), "\n")
	if len(got) != len(want) {
		t.Fatalf("got errors %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("error %d is %q, want %q...", i, got[i], want[i])
		}
	}
}

func TestNull(t *testing.T) {
	o, _ := Parse("config.json", []byte(`{"layers": null}`))
	n := 2
	if o.Get("layers", &n); o.Err() == nil || !strings.Contains(o.Err().Error(), "layers: null is not allowed") ||
		n != 2 {
		t.Errorf("null: got n %d, error %v, want 2 and an error with %q", n, o.Err(), "layers: null is not allowed")
	}
	for _, text := range []string{"null", "[]", "3", "{", ""} {
		t.Run(text, func(t *testing.T) {
			if _, err := Parse("config.json", []byte(text)); err == nil {
				t.Errorf("%q: got error %v, want one: it is no object", text, err)
			}
		})
	}
}
