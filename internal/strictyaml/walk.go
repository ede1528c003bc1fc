package strictyaml

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// walker decodes a tree according to the type of the Go value, and continues after every mistake.
type walker struct {
	*Document
	anchors map[string]ast.Node
}

func (w *walker) root(n ast.Node, v any) {
	w.value(n, reflect.ValueOf(v).Elem(), "")
}

// resolve follows anchors, aliases and tags to the node that holds the value.
func (w *walker) resolve(n ast.Node) ast.Node {
	for range 16 {
		switch x := n.(type) {
		case *ast.AnchorNode:
			w.anchors[x.Name.String()] = x.Value
			n = x.Value
		case *ast.AliasNode:
			target, ok := w.anchors[x.Value.String()]
			if !ok {
				return n
			}
			n = target
		case *ast.TagNode:
			n = x.Value
		default:
			return n
		}
	}
	return n
}

func (w *walker) value(n ast.Node, v reflect.Value, key string) {
	n = w.resolve(n)
	if n.Type() == ast.NullType {
		return
	}
	if u, ok := v.Addr().Interface().(Unmarshaler); ok {
		plain, ok := w.plain(n, key)
		if !ok {
			return
		}
		if err := u.UnmarshalValue(plain); err != nil {
			w.add(n, key, "%v", err)
		}
		return
	}
	if u, ok := v.Addr().Interface().(EntryUnmarshaler); ok {
		v.SetZero()
		w.ordered(n, u, key)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if x, ok := p.Interface().(Defaulter); ok {
			x.SetDefaults()
		}
		w.value(n, p.Elem(), key)
		v.Set(p)
	case reflect.Struct:
		w.structure(n, v, key)
	case reflect.Map:
		w.mapping(n, v, key)
	case reflect.Slice:
		w.sequence(n, v, key)
	default:
		w.scalar(n, v, key)
	}
}

// entries returns the pairs of a mapping, and records duplicate keys.
func (w *walker) entries(n ast.Node, key string) ([]*ast.MappingValueNode, bool) {
	m, ok := n.(ast.MapNode)
	if !ok {
		w.add(n, key, "want keys with values (a mapping), not %s", describe(n))
		return nil, false
	}
	var out []*ast.MappingValueNode
	seen := map[string]bool{}
	for it := m.MapRange(); it.Next(); {
		name := keyName(it.Key())
		if seen[name] {
			w.add(it.Key(), join(key, name), "duplicate key")
			continue
		}
		seen[name] = true
		if t := it.Key().GetToken(); t != nil && t.Position != nil {
			null := w.resolve(it.Value()).Type() == ast.NullType
			w.at[join(key, name)] = position{t.Position.Line, t.Position.Column, null}
		}
		out = append(out, it.KeyValue())
	}
	return out, true
}

func (w *walker) structure(n ast.Node, v reflect.Value, key string) {
	entries, ok := w.entries(n, key)
	if !ok {
		return
	}
	fields := map[string]int{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if name != "" && name != "-" {
			fields[name] = i
		}
	}
	for _, e := range entries {
		name := keyName(e.Key)
		i, ok := fields[name]
		if !ok {
			w.add(e.Key, join(key, name), "unknown key%s", suggest(name, fields, v))
			continue
		}
		w.value(e.Value, v.Field(i), join(key, name))
	}
}

func (w *walker) mapping(n ast.Node, v reflect.Value, key string) {
	entries, ok := w.entries(n, key)
	if !ok {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range entries {
		x := reflect.New(v.Type().Elem()).Elem()
		w.value(e.Value, x, join(key, keyName(e.Key)))
		v.SetMapIndex(reflect.ValueOf(keyName(e.Key)), x)
	}
}

func (w *walker) ordered(n ast.Node, u EntryUnmarshaler, key string) {
	entries, ok := w.entries(n, key)
	if !ok {
		return
	}
	for _, e := range entries {
		at := join(key, keyName(e.Key))
		plain, ok := w.plain(w.resolve(e.Value), at)
		if !ok {
			continue
		}
		if err := u.UnmarshalEntry(keyName(e.Key), plain); err != nil {
			w.add(e.Value, at, "%v", err)
		}
	}
}

func (w *walker) sequence(n ast.Node, v reflect.Value, key string) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		w.add(n, key, "want a list, not %s", describe(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values))
	for i, x := range s.Values {
		item := fmt.Sprintf("%s[%d]", key, i)
		if w.resolve(x).Type() == ast.NullType {
			w.add(x, item, "an empty item")
			continue
		}
		w.value(x, out.Index(i), item)
	}
	v.Set(out)
}

func (w *walker) scalar(n ast.Node, v reflect.Value, key string) {
	plain, ok := w.plain(n, key)
	if !ok {
		return
	}
	switch v.Kind() {
	case reflect.String:
		if s, ok := plain.(string); ok {
			v.SetString(s)
			return
		}
		w.add(n, key, "want a string, not %s (put it in quotes)", describe(n))
	case reflect.Bool:
		if b, ok := plain.(bool); ok {
			v.SetBool(b)
			return
		}
		w.add(n, key, "want true or false, not %s", describe(n))
	case reflect.Int, reflect.Int64:
		if i, ok := Int(plain); ok {
			v.SetInt(i)
			return
		}
		w.add(n, key, "want a whole number, not %s", describe(n))
	case reflect.Uint64:
		if i, ok := Int(plain); ok && i >= 0 {
			v.SetUint(uint64(i))
			return
		}
		w.add(n, key, "want a whole number of at least 0, not %s", describe(n))
	case reflect.Float64:
		if f, ok := Float(plain); ok {
			v.SetFloat(f)
			return
		}
		w.add(n, key, "want a number, not %s", describe(n))
	default:
		w.add(n, key, "a %s cannot be decoded", v.Type())
	}
}

// exponent matches a number of YAML 1.2's core schema that the parser takes for text: 2e-5, without a dot.
var exponent = regexp.MustCompile(`^[-+]?[0-9]+[eE][-+]?[0-9]+$`)

// octal matches a number that is octal in YAML 1.1 and decimal in YAML 1.2.
var octal = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

// plain decodes a node to a plain Go type.
func (w *walker) plain(n ast.Node, key string) (any, bool) {
	if s, ok := n.(*ast.StringNode); ok && s.Token.Type == token.StringType && exponent.MatchString(s.Value) {
		if f, err := strconv.ParseFloat(s.Value, 64); err == nil {
			return f, true
		}
	}
	if number, ok := n.(*ast.IntegerNode); ok && octal.MatchString(number.Token.Value) {
		w.add(n, key, "%s is octal to some YAML parsers and decimal to others: drop the leading zero",
			number.Token.Value)
		return nil, false
	}
	var out any
	if err := yaml.NodeToValue(n, &out); err != nil {
		w.add(n, key, "%v", err)
		return nil, false
	}
	return out, true
}

// Int reads a plain value as a whole number: 3, also 3.0 and 1e3.
func Int(value any) (int64, bool) {
	switch x := value.(type) {
	case int64:
		return x, true
	case uint64:
		return int64(x), x <= math.MaxInt64
	case float64:
		return int64(x), x == math.Trunc(x) && math.Abs(x) < 1<<53
	}
	return 0, false
}

// Float reads a plain value as a finite number.
func Float(value any) (float64, bool) {
	switch x := value.(type) {
	case int64:
		return float64(x), true
	case uint64:
		return float64(x), true
	case float64:
		return x, !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	return 0, false
}

func keyName(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.String()
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func describe(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	}
	s := n.String()
	if len(s) > 40 {
		s = s[:40] + "..."
	}
	return s
}

// suggest names the key that was probably meant, or all keys if none is similar. A struct may know the names that
// other programs use for its keys.
func suggest(name string, fields map[string]int, v reflect.Value) string {
	if v.CanAddr() {
		if s, ok := v.Addr().Interface().(interface{ KeyElsewhere(name string) string }); ok && s.KeyElsewhere(name) != "" {
			return fmt.Sprintf(" (use %s here)", s.KeyElsewhere(name))
		}
	}
	names := make([]string, 0, len(fields))
	for f := range fields {
		names = append(names, f)
	}
	sort.Strings(names)
	best, least := "", 1+len(name)/3
	for _, f := range names {
		if d := distance(name, f); d <= least && (best == "" || d < distance(name, best)) {
			best = f
		}
	}
	if best != "" {
		return fmt.Sprintf(" (did you mean %s?)", best)
	}
	return " (known keys: " + strings.Join(names, ", ") + ")"
}

// distance is the Levenshtein distance.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j]+1, row[j+1]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
