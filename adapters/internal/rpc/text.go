package rpc

import (
	"cmp"
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// AppendText appends a message as a JSON object, for the fingerprint and for key fields.
// Equal messages give equal bytes, in every version of the protobuf library: fields come
// in the order of their numbers, under their names in the .proto file, and maps in the
// order of their keys. Integers are numbers, enums their numbers, bytes are in base64.
// Why not the binary encoding: its deterministic form may change with the library, and
// the options of policies name fields.
//
// A field that the schema of this process does not know is the member "?12", with the
// tag and the value as received. A google.protobuf.Any is not opened.
func AppendText(text []byte, m protoreflect.Message) []byte {
	type populated struct {
		field protoreflect.FieldDescriptor
		value protoreflect.Value
	}
	fields := make([]populated, 0, 8)
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fields = append(fields, populated{field, value})
		return true
	})
	slices.SortFunc(fields, func(a, b populated) int { return cmp.Compare(a.field.Number(), b.field.Number()) })
	text = append(text, '{')
	for _, f := range fields {
		name := string(f.field.Name())
		if f.field.IsExtension() {
			name = "[" + string(f.field.FullName()) + "]"
		}
		text = appendValue(append(appendQuoted(text, name), ':'), f.field, f.value)
		text = append(text, ',')
	}
	text = appendUnknown(text, m.GetUnknown())
	return closed(text, '}')
}

// closed puts the end in place of the last comma.
func closed(text []byte, end byte) []byte {
	if last := len(text) - 1; text[last] == ',' {
		text[last] = end
		return text
	}
	return append(text, end)
}

func appendValue(text []byte, field protoreflect.FieldDescriptor, value protoreflect.Value) []byte {
	switch {
	case field.IsList():
		text = append(text, '[')
		for i := range value.List().Len() {
			text = append(appendSingle(text, field, value.List().Get(i)), ',')
		}
		return closed(text, ']')
	case field.IsMap():
		return appendMap(text, field, value.Map())
	default:
		return appendSingle(text, field, value)
	}
}

func appendMap(text []byte, field protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(a, b protoreflect.MapKey) int { return strings.Compare(a.String(), b.String()) })
	text = append(text, '{')
	for _, key := range keys {
		text = append(appendQuoted(text, key.String()), ':')
		text = append(appendSingle(text, field.MapValue(), m.Get(key)), ',')
	}
	return closed(text, '}')
}

func appendSingle(text []byte, field protoreflect.FieldDescriptor, value protoreflect.Value) []byte {
	switch v := value.Interface().(type) {
	case protoreflect.Message:
		return AppendText(text, v)
	case bool:
		return strconv.AppendBool(text, v)
	case protoreflect.EnumNumber:
		return strconv.AppendInt(text, int64(v), 10)
	case int32, int64:
		return strconv.AppendInt(text, value.Int(), 10)
	case uint32, uint64:
		return strconv.AppendUint(text, value.Uint(), 10)
	case float32, float64:
		return appendFloat(text, value.Float(), field.Kind())
	case []byte:
		return append(base64.StdEncoding.AppendEncode(append(text, '"'), v), '"')
	default: // a string
		return appendQuoted(text, value.String())
	}
}

func appendFloat(text []byte, f float64, kind protoreflect.Kind) []byte {
	bits := 64
	if kind == protoreflect.FloatKind {
		bits = 32
	}
	if math.IsNaN(f) || math.IsInf(f, 0) { // no JSON numbers
		return append(strconv.AppendFloat(append(text, '"'), f, 'g', -1, bits), '"')
	}
	return strconv.AppendFloat(text, f, 'g', -1, bits)
}

// appendQuoted keeps bytes that are not UTF-8: proto2 allows them, and package
// fingerprint tells them apart.
func appendQuoted(text []byte, s string) []byte {
	text = append(text, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			text = append(text, '\\', c)
		case c < ' ':
			const hex = "0123456789abcdef"
			text = append(text, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			text = append(text, c)
		}
	}
	return append(text, '"')
}

// appendUnknown appends the fields that the schema does not have, by their numbers. The
// values of one number keep their order.
func appendUnknown(text []byte, unknown protoreflect.RawFields) []byte {
	raw := make(map[protowire.Number][]byte)
	for len(unknown) > 0 {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 { // the decoder refuses such a message
			raw[0] = append(raw[0], unknown...)
			break
		}
		raw[number] = append(raw[number], unknown[:n]...)
		unknown = unknown[n:]
	}
	numbers := make([]protowire.Number, 0, len(raw))
	for number := range raw {
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	for _, number := range numbers {
		text = strconv.AppendInt(append(text, '"', '?'), int64(number), 10)
		text = base64.StdEncoding.AppendEncode(append(text, '"', ':', '"'), raw[number])
		text = append(text, '"', ',')
	}
	return text
}
