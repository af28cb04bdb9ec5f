package records

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"

	"github.com/oncekey/oncekey/core/storage"
)

// inBase64 marks a field whose name and value are in base64.
const inBase64 = "base64"

var operations = [...]string{storage.Set: "set", storage.Add: "add", storage.Delete: "delete", storage.Sealed: "sealed"}

// HeaderWords encodes a response header as a list of words for each field, readable by eye
// in JSON. A field is encoded in base64 unless isPlain is true for its name and value.
//
//	["set", "Content-Type", "application/json"]
//	["add", "WC1SYXc=", "/w==", "base64"]
func HeaderWords(header storage.Header, isPlain func(string) bool) [][]string {
	fields := make([][]string, len(header))
	encoding := base64.StdEncoding
	for i, f := range header {
		operation := operations[f.Op]
		if isPlain(f.Name) && isPlain(f.Value) {
			fields[i] = []string{operation, f.Name, f.Value}
			continue
		}
		fields[i] = []string{operation, encoding.EncodeToString([]byte(f.Name)), encoding.EncodeToString([]byte(f.Value)), inBase64}
	}
	return fields
}

// IsPrintable reports whether a text is printable ASCII, which every character set of a
// database keeps unchanged. jsonb has no NUL, and no characters outside of the database's
// own encoding.
func IsPrintable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// HeaderJSON returns the words of a header as JSON in printable ASCII, or nil for no fields.
func HeaderJSON(header storage.Header) []byte {
	if len(header) == 0 {
		return nil
	}
	encoded, err := json.Marshal(HeaderWords(header, IsPrintable))
	if err != nil {
		panic("records: " + err.Error()) // strings always encode
	}
	return encoded
}

// ParseHeader is the inverse of HeaderJSON. The error shows the unreadable part. ParseHeader
// does not check that the text is JSON: that would cost a tenth of a replay, and some
// databases have checked it.
func ParseHeader(text string) (storage.Header, error) {
	fields, readable := parseWords(gjson.Parse(text))
	if !readable {
		return nil, fmt.Errorf("header is %s", Excerpt(text))
	}
	return HeaderOfWords(fields)
}

// parseWords returns the words of each field of a JSON header, and false for other JSON.
func parseWords(header gjson.Result) (fields [][]string, readable bool) {
	readable = header.IsArray()
	header.ForEach(func(_, field gjson.Result) bool {
		const enough = 4 // words of a field
		words := make([]string, 0, enough)
		readable = readable && field.IsArray()
		field.ForEach(func(_, word gjson.Result) bool {
			readable = readable && word.Type == gjson.String
			words = append(words, word.Str)
			return readable
		})
		fields = append(fields, words)
		return readable
	})
	return fields, readable
}

// HeaderOfWords is the inverse of HeaderWords, with a nil header for no fields. The error
// names the unreadable field and shows its text.
func HeaderOfWords(fields [][]string) (storage.Header, error) {
	if len(fields) == 0 {
		return nil, nil
	}
	header := make(storage.Header, len(fields))
	for i, words := range fields {
		var readable bool
		if header[i], readable = decodeField(words); !readable {
			return nil, fmt.Errorf("header field %d is %.100q", i, fmt.Sprint(words))
		}
	}
	return header, nil
}

func decodeField(words []string) (storage.Field, bool) {
	const plain, encoded = 3, 4
	if len(words) != plain && (len(words) != encoded || words[plain] != inBase64) {
		return storage.Field{}, false
	}
	field := storage.Field{Name: words[1], Value: words[2]}
	if len(words) == encoded {
		name, nameErr := base64.StdEncoding.DecodeString(words[1])
		value, valueErr := base64.StdEncoding.DecodeString(words[2])
		if errors.Join(nameErr, valueErr) != nil {
			return storage.Field{}, false
		}
		field.Name, field.Value = string(name), string(value)
	}
	for operation, name := range operations {
		if name == words[0] {
			field.Op = storage.FieldOp(operation)
			return field, true
		}
	}
	return storage.Field{}, false
}
