package grammar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/internal/strictjson"
)

// annotations are keys of a JSON schema that do not affect validation.
var annotations = strictjson.Harmless{
	"title": nil, "description": nil, "default": nil, "examples": nil, "$schema": nil, "$id": nil, "$comment": nil,
	"deprecated": nil, "readOnly": nil, "writeOnly": nil, "$defs": nil, "definitions": nil,
}

// FromSchema builds a grammar from a JSON schema. Its texts are valid under the schema, but not every valid text
// belongs to it: there are at most 12 whitespace characters between parts, objects have only the named properties, in
// their order if ordered is set, numbers have at most 12 digits before the point and 6 after it and no exponent, and
// values of enum and const have one spelling.
//
// Supported are type (also a list of types), properties, required, additionalProperties: false, items, minItems,
// maxItems, minLength, maxLength, minimum, maximum, enum and const of plain values, anyOf, and $ref to $defs without
// cycles. Any other key that would change what is allowed is an error that names it. A schema that is too large or
// too deep is also an error: the limits are in docs/chat.md.
func FromSchema(raw json.RawMessage, ordered bool) (*Grammar, error) {
	if err := tooLarge(raw); err != nil {
		return nil, err
	}
	if _, err := jsontext.NewDecoder(bytes.NewReader(raw)).ReadValue(); err != nil { // also finds duplicate keys
		return nil, fmt.Errorf("schema: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	if err := measure(raw); err != nil {
		return nil, err
	}
	root, err := strictjson.Parse("schema", raw)
	if err != nil {
		return nil, err
	}
	c := &compiler{root: root, ordered: ordered, inside: map[string]bool{}, made: map[string]expr{},
		defs: map[string]map[string]json.RawMessage{}}
	e, err := c.compile("schema", raw)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return nil, errors.New("schema: it allows no text that can be written")
	}
	return &Grammar{start: e, schema: slices.Clone(raw)}, nil
}

// compiler compiles schemas to languages.
type compiler struct {
	root    *strictjson.Object
	ordered bool
	inside  map[string]bool // references that are being followed
	made    map[string]expr // by reference: already compiled
	defs    map[string]map[string]json.RawMessage
}

// compile returns the language of a schema; nil if it allows nothing.
func (c *compiler) compile(path string, raw json.RawMessage) (expr, error) {
	o, err := strictjson.Parse(path, raw)
	if err != nil {
		return nil, err
	}
	var e expr
	switch {
	case o.Has("$ref"):
		var name string
		if o.Get("$ref", &name); name != "" {
			e, err = c.follow(path, name)
		}
	case o.Has("anyOf"):
		e, err = c.any(path, o)
	case o.Raw("const") != nil:
		e, err = c.values(o, "const", []json.RawMessage{o.Raw("const")})
	case o.Has("enum"):
		var list []json.RawMessage
		o.Get("enum", &list)
		e, err = c.values(o, "enum", list)
	default:
		e, err = c.typed(path, o)
	}
	o.Close(annotations)
	return e, errors.Join(err, o.Err())
}

// follow compiles the schema that a reference names.
func (c *compiler) follow(path, name string) (expr, error) {
	for _, place := range []string{"$defs", "definitions"} {
		key, ok := strings.CutPrefix(name, "#/"+place+"/")
		if !ok {
			continue
		}
		if c.inside[name] {
			return nil, fmt.Errorf("%s: $ref %q refers to itself: recursive schemas are not supported", path, name)
		}
		if e, ok := c.made[name]; ok {
			return e, nil
		}
		defs, read := c.defs[place]
		if !read {
			c.root.Get(place, &defs)
			c.defs[place] = defs
		}
		if defs[key] == nil {
			break
		}
		c.inside[name] = true
		defer delete(c.inside, name)
		e, err := c.compile(name, defs[key])
		c.made[name] = e
		return e, err
	}
	return nil, fmt.Errorf("%s: $ref %q: not found; only #/$defs/NAME is supported", path, name)
}

func (c *compiler) any(path string, o *strictjson.Object) (expr, error) {
	var list []json.RawMessage
	o.Get("anyOf", &list)
	var all []expr
	for i, raw := range list {
		e, err := c.compile(fmt.Sprintf("%s.anyOf[%d]", path, i), raw)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return either(all...), nil
}

// kindOf returns the JSON type of a value, from its first byte.
func kindOf(raw json.RawMessage) string {
	switch raw[0] {
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return "number"
}

// values returns the language of the values of enum or const, each in one spelling. If the schema also has a type,
// they must be of that type.
func (c *compiler) values(o *strictjson.Object, key string, list []json.RawMessage) (expr, error) {
	types := typesOf(o)
	var all []expr
	for _, raw := range list {
		kind := kindOf(raw)
		whole := kind == "number" && slices.Contains(types, "integer") && !bytes.ContainsAny(raw, ".eE")
		switch {
		case kind == "object" || kind == "array":
			o.Failf(key, "%s: only texts, numbers, true, false and null are supported", raw)
			continue
		case o.Has("type") && !slices.Contains(types, kind) && !whole:
			o.Failf(key, "%s is not of the type that the schema names", raw)
			continue
		}
		text := string(raw)
		if kind == "string" {
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return nil, err
			}
			var err error
			if text, err = spelled(s); err != nil {
				return nil, err
			}
		}
		all = append(all, literal(text))
	}
	return either(all...), nil
}

// typesOf reads type, a name or a list of names.
func typesOf(o *strictjson.Object) []string {
	var one string
	var list []string
	if raw := o.Raw("type"); raw != nil && json.Unmarshal(raw, &one) == nil {
		return []string{one}
	}
	o.Opt("type", &list)
	return list
}

// typed compiles a schema with a type.
func (c *compiler) typed(path string, o *strictjson.Object) (expr, error) {
	types := typesOf(o)
	if len(types) == 0 {
		o.Failf("type", "missing: a schema needs type, enum, const, anyOf or $ref")
	}
	var all []expr
	for _, t := range types {
		var e expr
		var err error
		switch t {
		case "object":
			e, err = c.object(path, o)
		case "array":
			e, err = c.array(path, o)
		case "string":
			from, to := counts(o, "minLength", "maxLength")
			if e = nil; to < 0 || from <= to {
				e = text(from, to)
			}
		case "number", "integer":
			e = numberOf(o, t == "integer")
		case "boolean":
			e = either(literal("true"), literal("false"))
		case "null":
			e = literal("null")
		default:
			o.Failf("type", "%q is not a JSON type", t)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return either(all...), nil
}

// maxRepeats limits the counts in a schema (minLength, maxItems and the like).
const maxRepeats = 1 << 16

// counts reads a minimum and a maximum count; to -1: no maximum.
func counts(o *strictjson.Object, least, most string) (from, to int) {
	to = -1
	o.Opt(least, &from)
	o.Opt(most, &to)
	if from < 0 || from > maxRepeats {
		o.Failf(least, "%d: want 0 to %d", from, maxRepeats)
		from = 0
	}
	if o.Has(most) && (to < 0 || to > maxRepeats) {
		o.Failf(most, "%d: want 0 to %d", to, maxRepeats)
		to = -1
	}
	return from, to
}

func numberOf(o *strictjson.Object, whole bool) expr {
	low, high := math.Inf(-1), math.Inf(1)
	o.Opt("minimum", &low)
	o.Opt("maximum", &high)
	e, err := decimals(low, high, whole)
	if err != nil {
		o.Failf("minimum", "%w", err)
	}
	return e
}

func (c *compiler) array(path string, o *strictjson.Object) (expr, error) {
	from, to := counts(o, "minItems", "maxItems")
	raw := o.Raw("items")
	if raw == nil {
		if to != 0 {
			o.Failf("items", "missing: want the schema of the items")
		}
		return array(nil, from, to), nil
	}
	item, err := c.compile(path+".items", raw)
	if err == nil && item != nil && from*item.least() > maxShortest {
		o.Failf("minItems", "%d: the shortest text would have more than %d bytes", from, maxShortest)
		return nil, nil
	}
	return array(item, from, to), err
}

func (c *compiler) object(path string, o *strictjson.Object) (expr, error) {
	more := true
	if o.Opt("additionalProperties", &more); more && o.Has("additionalProperties") {
		o.Failf("additionalProperties", "true is not supported: every property must be named")
	}
	var required []string
	o.Opt("required", &required)
	missing := map[string]bool{}
	for _, name := range required {
		missing[name] = true
	}
	names, values, err := ordered(o.Raw("properties"))
	if err != nil {
		return nil, fmt.Errorf("%s.properties: %w", path, err)
	}
	var fields []field
	for i, name := range names {
		e, err := c.compile(path+".properties."+name, values[i])
		if err != nil {
			return nil, err
		}
		fields = append(fields, field{name, e, missing[name]})
		delete(missing, name)
	}
	for name := range missing {
		o.Failf("required", "%q is not one of the properties", name)
	}
	e, err := objectOf(fields, c.ordered)
	if err != nil {
		o.Failf("properties", "%w", err)
	}
	return e, nil
}

// ordered returns the keys and values of an object in the order of the text.
func ordered(raw json.RawMessage) (names []string, values []json.RawMessage, err error) {
	if raw == nil {
		return nil, nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, errors.Join(errors.New("want an object"), err)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, nil, err
		}
		name, _ := t.(string) // keys are strings
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, nil, err
		}
		names, values = append(names, name), append(values, value)
	}
	return names, values, nil
}
