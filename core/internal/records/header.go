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

// HeaderJSON returns a response header as JSON in printable ASCII, readable by eye, or nil
// for no fields. A field is a list of words, in base64 unless its name and value are
// printable.
//
//	["set", "Content-Type", "application/json"]
//	["add", "WC1SYXc=", "/w==", "base64"]
func HeaderJSON(header storage.Header) []byte {
	if len(header) == 0 {
		return nil
	}
	fields := make([][]string, len(header))
	encoding := base64.StdEncoding
	for i, f := range header {
		operation := operations[f.Op]
		if IsPrintable(f.Name) && IsPrintable(f.Value) {
			fields[i] = []string{operation, f.Name, f.Value}
			continue
		}
		fields[i] = []string{operation, encoding.EncodeToString([]byte(f.Name)), encoding.EncodeToString([]byte(f.Value)), inBase64}
	}
	encoded, err := json.Marshal(fields)
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
	return headerOf(fields)
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

// headerOf returns the header of some lists of words, or nil for none. The error names the
// unreadable field and shows its text.
func headerOf(fields [][]string) (storage.Header, error) {
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
