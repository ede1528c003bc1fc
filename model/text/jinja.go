package text

import (
	"errors"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// environment is Jinja as transformers sets it up: loop controls, raise_exception, tojson in Python's spelling and {%
// generation %}. strftime_now is left undefined, so that templates use their fixed date: a score must not depend on the
// day. It also fixes two differences of the library from Jinja: list[-1] of one element, replace without a count.
var environment = &exec.Environment{
	Context: exec.EmptyContext().Update(builtins.GlobalFunctions).Update(builtins.GlobalVariables).Update(
		exec.NewContext(map[string]any{"raise_exception": raiseException})),
	Filters: exec.NewFilterSet(map[string]exec.FilterFunction{}).Update(builtins.Filters).Update(
		exec.NewFilterSet(map[string]exec.FilterFunction{"tojson": toJSON})),
	Tests: builtins.Tests,
	ControlStructures: exec.NewControlStructureSet(map[string]parser.ControlStructureParser{
		"generation": parseGeneration,
	}).Update(builtins.ControlStructures),
	Methods: exec.Methods{
		Bool:  builtins.Methods.Bool,
		Int:   builtins.Methods.Int,
		Float: builtins.Methods.Float,
		Dict:  builtins.Methods.Dict,
		List:  builtins.Methods.List,
		Str:   stringMethods(),
	},
}

// list is a sequence with Python's negative indices.
type list []any

// GetItem implements exec.ItemGetter.
func (l list) GetItem(key any) (*exec.Value, bool) {
	i, ok := key.(int)
	if i < 0 {
		i += len(l)
	}
	if !ok || i < 0 || i >= len(l) {
		return exec.AsValue(nil), false
	}
	return exec.AsValue(l[i]), true
}

// stringMethods is the library's set, with Python's replace(old, new, count=-1).
func stringMethods() *exec.MethodSet[string] {
	set := map[string]exec.Method[string]{}
	for _, name := range strings.Fields(`capitalize casefold center count encode endswith expandtabs find format index
		isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join
		ljust lower lstrip partition removeprefix removesuffix rfind rindex rjust rpartition rsplit rstrip split
		splitlines startswith strip swapcase title upper zfill`) {
		if method, ok := builtins.Methods.Str.Get(name); ok {
			set[name] = method
		}
	}
	set["replace"] = func(self string, _ *exec.Value, arguments *exec.VarArgs) (any, error) {
		var from, to string
		count := -1
		if err := arguments.Take(exec.PositionalArgument("old", nil, exec.StringArgument(&from)),
			exec.PositionalArgument("new", nil, exec.StringArgument(&to)),
			exec.PositionalArgument("count", exec.AsValue(-1), exec.IntArgument(&count))); err != nil {
			return nil, exec.ErrInvalidCall(err)
		}
		return strings.Replace(self, from, to, count), nil
	}
	return exec.NewMethodSet(set)
}

func raiseException(message string) (string, error) { return "", errors.New(message) }

// generation is transformers' {% generation %}...{% endgeneration %}: it marks what the assistant wrote and renders it.
type generation struct{ body *nodes.Wrapper }

func parseGeneration(p, args *parser.Parser) (nodes.ControlStructure, error) {
	if !args.End() {
		return nil, args.Error("generation takes no arguments", nil)
	}
	body, _, err := p.WrapUntil("endgeneration")
	if err != nil {
		return nil, err
	}
	return &generation{body}, nil
}

func (g *generation) Position() *tokens.Token { return g.body.Position() }

func (g *generation) String() string { return "generation" }

// Execute renders the body in its own scope.
func (g *generation) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.Inherit().ExecuteWrapper(g.body)
}

// toJSON is json.dumps(value, ensure_ascii=False, indent=indent) with sorted keys.
func toJSON(e *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
	indented := len(params.Args) > 0 && !params.Args[0].IsNil()
	if indent, ok := params.KwArgs["indent"]; ok {
		indented = !indent.IsNil()
	}
	standard, _ := builtins.Filters.Get("tojson")
	out := standard(e, in, params)
	if out.IsError() {
		return out
	}
	return exec.AsSafeValue(pythonJSON(out.String(), indented))
}

// jsonEscapes are the characters that Go escapes for HTML and Python does not; an escaped backslash is matched first
// so that the characters after it are not taken for an escape.
var jsonEscapes = strings.NewReplacer(`\\`, `\\`, `\u003c`, "<", `\u003e`, ">", `\u0026`, "&", `\u0027`, "'",
	`\u2028`, "\u2028", `\u2029`, "\u2029")

// pythonJSON respells Go's JSON. On one line Python puts a space after commas and colons.
func pythonJSON(s string, indented bool) string {
	if indented {
		return jsonEscapes.Replace(s)
	}
	var b strings.Builder
	inString := false
	for i := 0; i < len(s); i++ {
		b.WriteByte(s[i])
		switch {
		case inString && s[i] == '\\':
			i++
			b.WriteByte(s[i])
		case s[i] == '"':
			inString = !inString
		case !inString && (s[i] == ',' || s[i] == ':'):
			b.WriteByte(' ')
		}
	}
	return jsonEscapes.Replace(b.String())
}
