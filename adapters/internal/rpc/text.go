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
// tag and the value as received. More than 10,000 such fields of a message are one member
// "?0", in the order in which they were received. A google.protobuf.Any is not opened.
//
// AppendText stops when the text is longer than limit bytes, and sorts nothing that will
// be longer. The text is not whole then, and the engine refuses it by its length.
func AppendText(text []byte, m protoreflect.Message, limit int64) []byte {
	type populated struct {
		field protoreflect.FieldDescriptor
		value protoreflect.Value
	}
	var fields []populated // none in an empty message, of which a list can have many
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		fields = append(fields, populated{field, value})
		return true
	})
	slices.SortFunc(fields, func(a, b populated) int { return cmp.Compare(a.field.Number(), b.field.Number()) })
	text = append(text, '{')
	for _, f := range fields {
		if int64(len(text)) > limit {
			return text
		}
		name := string(f.field.Name())
		if f.field.IsExtension() {
			name = "[" + string(f.field.FullName()) + "]"
		}
		text = appendValue(append(appendQuoted(text, name), ':'), f.field, f.value, limit)
		text = append(text, ',')
	}
	text = appendUnknown(text, m.GetUnknown(), limit)
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

func appendValue(text []byte, field protoreflect.FieldDescriptor, value protoreflect.Value, limit int64) []byte {
	switch {
	case field.IsList():
		text = append(text, '[')
		for i := range value.List().Len() {
			if int64(len(text)) > limit {
				return text
			}
			text = append(appendSingle(text, field, value.List().Get(i), limit), ',')
		}
		return closed(text, ']')
	case field.IsMap():
		return appendMap(text, field, value.Map(), limit)
	default:
		return appendSingle(text, field, value, limit)
	}
}

func appendMap(text []byte, field protoreflect.FieldDescriptor, m protoreflect.Map, limit int64) []byte {
	const shortest = len(`"":0,`)
	if int64(len(text)+shortest*m.Len()) > limit {
		return exceeding(text, limit)
	}
	type entry struct {
		name  string
		value protoreflect.Value
	}
	entries := make([]entry, 0, m.Len())
	m.Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		entries = append(entries, entry{key.String(), value})
		return true
	})
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	text = append(text, '{')
	for _, e := range entries {
		if int64(len(text)) > limit {
			return text
		}
		text = append(appendQuoted(text, e.name), ':')
		text = append(appendSingle(text, field.MapValue(), e.value, limit), ',')
	}
	return closed(text, '}')
}

// exceeding returns a text that is longer than limit bytes, in place of one with a part
// that would be too long.
func exceeding(text []byte, limit int64) []byte {
	return append(text, make([]byte, max(0, limit+1-int64(len(text))))...)
}

func appendSingle(text []byte, field protoreflect.FieldDescriptor, value protoreflect.Value, limit int64) []byte {
	switch v := value.Interface().(type) {
	case protoreflect.Message:
		return AppendText(text, v, limit)
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

// maxUnknown is the largest number of unknown fields that are sorted. It bounds the time:
// a field needs two bytes.
const maxUnknown = 10_000

// appendUnknown appends the fields that the schema does not have, by their numbers. The
// values of one number keep their order.
func appendUnknown(text []byte, unknown protoreflect.RawFields, limit int64) []byte {
	if size := base64.StdEncoding.EncodedLen(len(unknown)); int64(len(text)+size) > limit {
		return exceeding(text, limit)
	}
	raw := make(map[protowire.Number][]byte)
	whole := unknown
	for count := 0; len(unknown) > 0; count++ {
		number, _, n := protowire.ConsumeField(unknown)
		if n < 0 || count == maxUnknown { // the decoder refuses a malformed field
			clear(raw)
			raw[0] = whole
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
