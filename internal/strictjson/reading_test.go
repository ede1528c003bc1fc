package strictjson

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, text string) *Object {
	t.Helper()
	o, err := Parse("a.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// errorsOf returns the lines of an object's error.
func errorsOf(o *Object) []string {
	if o.Err() == nil {
		return nil
	}
	return strings.Split(o.Err().Error(), "\n")
}

// TestOpt: null counts as absent, a value is read, and the key counts as read in any case.
func TestOpt(t *testing.T) {
	for text, want := range map[string]int{`{}`: 5, `{"n": null}`: 5, `{"n": 3}`: 3} {
		t.Run(text, func(t *testing.T) {
			o, got := parse(t, text), 5
			o.Opt("n", &got)
			o.Close()
			if err := o.Err(); got != want || err != nil {
				t.Errorf("Opt: got %d, %v, want %d", got, err, want)
			}
		})
	}
}

// TestSub: an absent or null object is nil without an error; another type is an error.
func TestSub(t *testing.T) {
	for text, want := range map[string]string{`{}`: "", `{"sub": null}`: "",
		`{"sub": 3}`: "a.json: sub: 3: want an object"} {
		t.Run(text, func(t *testing.T) {
			o := parse(t, text)
			sub := o.Sub("sub")
			o.Close()
			if got := strings.Join(errorsOf(o), "\n"); sub != nil || got != want {
				t.Errorf("Sub: got %v, error %q, want nil, error %q", sub, got, want)
			}
		})
	}
}

// TestRest: keys that are neither read nor listed go to the rest, once.
func TestRest(t *testing.T) {
	o := parse(t, `{"read": 1, "listed": 2, "a": 3, "b": 4}`)
	o.Raw("read")
	rest := o.Rest(Harmless{"listed": nil})
	if d := cmp.Diff([]string{"a", "b"}, rest.Keys()); d != "" {
		t.Errorf("Rest (-want +got):\n%s", d)
	}
	if rest.Empty() || !o.Rest(Harmless{"listed": nil}).Empty() {
		t.Errorf("Empty: got %t, then %t, want false, then true", rest.Empty(), o.Rest(Harmless{"listed": nil}).Empty())
	}
	rest.Raw("a")
	o.Close(Harmless{"listed": nil})
	rest.Close()
	if d := cmp.Diff([]string{`a.json: unknown key(s) "b" (4): they may change the results, so they are not ignored; ` +
		`remove those that surely do not`}, errorsOf(o)); d != "" {
		t.Errorf("errors (-want +got):\n%s", d)
	}
}

// TestSame: a key that another object has with the same value counts as read, however the value is spelled.
func TestSame(t *testing.T) {
	o := parse(t, `{"same": {"x": 1.0}, "other": 1, "own": 2}`)
	o.Same(parse(t, `{"same": {"x": 1}, "other": 3, "theirs": 4}`))
	if got := o.Rest(nil).Keys(); !cmp.Equal(got, []string{"other", "own"}) {
		t.Errorf("unread: got %q, want other and own", got)
	}
}

// TestClip: a long value is cut to 60 characters, not bytes, and whitespace is removed.
func TestClip(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		{"blanks", `{ "a" : [1, 2] }`, `{"a":[1,2]}`},
		{"60", `"` + strings.Repeat("é", 58) + `"`, `"` + strings.Repeat("é", 58) + `"`},
		{"61", `"` + strings.Repeat("é", 59) + `"`, `"` + strings.Repeat("é", 56) + `...`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := clip([]byte(c.raw)); got != c.want {
				t.Errorf("clip(%s): got %s, want %s", c.raw, got, c.want)
			}
		})
	}
}

// TestClose: all unknown keys are named in one error; each value that a table does not list is a separate error, and
// a table without values accepts any.
func TestClose(t *testing.T) {
	for _, c := range []struct {
		text   string
		tables []Harmless
		want   []string
	}{
		{`{}`, nil, nil},
		{`{"a": 1}`, []Harmless{{"a": nil}}, nil},
		{`{"a": 1}`, []Harmless{{"b": nil}, {"a": {1.0, "x"}}}, nil},
		{`{"a": [1]}`, []Harmless{{"a": {1, "x"}}, {"a": nil}}, []string{`a.json: a: [1] is not supported; 1 or "x" is`}},
		{`{"a": 2}`, []Harmless{{"a": {1}}}, []string{`a.json: a: 2 is not supported; 1 is`}},
		{`{"b": 2, "a": 1}`, nil, []string{`a.json: unknown key(s) "a" (1), "b" (2): they may change the results, ` +
			`so they are not ignored; remove those that surely do not`}},
	} {
		t.Run(c.text+fmt.Sprint(c.tables), func(t *testing.T) {
			o := parse(t, c.text)
			o.Close(c.tables...)
			if d := cmp.Diff(c.want, errorsOf(o)); d != "" {
				t.Errorf("errors (-want +got):\n%s", d)
			}
		})
	}
}

// TestPaths: an error names the file, and the keys down to the value.
func TestPaths(t *testing.T) {
	o := parse(t, `{"a": {"b": {"n": "x"}}}`)
	n := 1
	o.Sub("a").Sub("b").Get("n", &n)
	o.None("c").Failf("", "is %d", 7)
	o.Failf("a", "is %d", 8)
	want := []string{"a.json: a.b.n: \"x\": want int", "a.json: a: is 8", "a.json: c: is 7"}
	if d := cmp.Diff(want, errorsOf(o)); d != "" || n != 1 {
		t.Errorf("n = %d, want 1; errors (-want +got):\n%s", n, d)
	}
}

// TestDefaultIsKept: a slice that is a default is replaced, not written into.
func TestDefaultIsKept(t *testing.T) {
	shared := []int{1, 2, 3}
	got := shared
	o := parse(t, `{"list": [7]}`)
	o.Get("list", &got)
	if !cmp.Equal(got, []int{7}) || !cmp.Equal(shared, []int{1, 2, 3}) {
		t.Errorf("got %v, the default is %v, want [7] and [1 2 3]", got, shared)
	}
}
