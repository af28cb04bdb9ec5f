package inspector

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/oncekey/oncekey/core/storage"
)

// Response is a stored response. Values of headers that are not listed are hidden.
type Response struct {
	Status  int      `json:"status"`
	Headers []Header `json:"headers"`
	Bytes   int      `json:"bytes"`
	// Shown says that Body holds the masked body.
	Shown  bool   `json:"shown"`
	Body   string `json:"body,omitempty"`
	Masked bool   `json:"masked,omitempty"`
}

// Header is one field of a stored response.
type Header struct {
	Name   string `json:"name"`
	Value  string `json:"value,omitempty"`
	Hidden bool   `json:"hidden,omitempty"`
}

// responseOf returns the stored response, with its masked body if it may be shown.
func (p *Page) responseOf(record *storage.Record, reveal bool) *Response {
	if record.Status == 0 || record.State == storage.InProgress || isByHand(record) {
		return nil
	}
	shown := &Response{Status: record.Status, Bytes: len(record.Body), Headers: []Header{}}
	contentType := ""
	for _, field := range record.Header {
		name := http.CanonicalHeaderKey(field.Name)
		if field.Op != storage.Set && field.Op != storage.Add {
			continue
		}
		if name == "Content-Type" {
			contentType = field.Value
		}
		header := Header{Name: name, Hidden: !slices.Contains(p.headers, name)}
		if !header.Hidden {
			header.Value = field.Value
			if strings.HasSuffix(name, "Location") {
				header.Value = maskAddress(field.Value)
			}
		}
		shown.Headers = append(shown.Headers, header)
	}
	if reveal {
		shown.Body, shown.Shown = p.mask(contentType, record.Body)
		shown.Masked = shown.Shown
	}
	return shown
}

// mask returns the text of a body that an operator may see. It returns no text and false
// for a body that only Redact can mask, where there is no Redact.
func (p *Page) mask(contentType string, body []byte) (text string, shown bool) {
	if isJSON(contentType) {
		if masked, ok := maskJSON(body); ok {
			body, shown = masked, true
		}
	}
	switch {
	case p.redact != nil:
		return string(p.redact(contentType, bytes.Clone(body))), true
	case shown:
		return string(body), true
	default:
		return "", false
	}
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// maxIndented bounds the nesting of a document with indentation, which costs each line its depth:
// a megabyte of zeros in 9,000 arrays would take gigabytes.
const maxIndented = 20

// maxIndentedSize is in bytes. A browser lays out a megabyte of short lines in 25 seconds, and the same without new lines in
// less than one.
const maxIndentedSize = 256 << 10

// maskJSON returns a document with masked values, and with indentation up to maxIndented and maxIndentedSize.
// It returns false for a text that is no JSON document, or is nested too deeply for package json: such a one
// would overflow the stack.
func maskJSON(body []byte) ([]byte, bool) {
	if !json.Valid(body) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	m := masker{decoder: decoder}
	if !m.value(true) {
		return nil, false
	}
	if m.deepest > maxIndented {
		return m.out.Bytes(), true
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, m.out.Bytes(), "", "  "); err != nil {
		return nil, false
	}
	if indented.Len() > maxIndentedSize {
		return m.out.Bytes(), true
	}
	return indented.Bytes(), true
}

// masker copies the tokens of a document in their order.
type masker struct {
	decoder        *json.Decoder
	out            bytes.Buffer
	depth, deepest int
	named          int // members around the value
}

// value copies one value. Of a hidden one, only the structure and the names are left. A value without a name is hidden, such as
// a token that is the whole body, or a list of them.
func (m *masker) value(hidden bool) (ok bool) {
	token, err := m.decoder.Token()
	if err != nil {
		return false
	}
	if open, isOpen := token.(json.Delim); isOpen {
		return m.members(open, hidden)
	}
	if hidden && token != nil {
		token = masked
	}
	return m.write(token)
}

func (m *masker) members(open json.Delim, hidden bool) bool {
	m.depth++
	m.deepest = max(m.deepest, m.depth)
	m.out.WriteRune(rune(open))
	for n := 0; m.decoder.More(); n++ {
		if n > 0 {
			m.out.WriteByte(',')
		}
		hides := hidden
		if open == '{' {
			name, err := m.decoder.Token()
			if err != nil || !m.write(name) {
				return false
			}
			m.out.WriteByte(':')
			text, _ := name.(string) // the name of a member is a string
			hides = hidden && m.named > 0 || isSecret(text)
			m.named++
		}
		if !m.value(hides) {
			return false
		}
		if open == '{' {
			m.named--
		}
	}
	m.depth--
	closing, err := m.decoder.Token()
	if err != nil {
		return false
	}
	m.out.WriteString(closing.(json.Delim).String()) //nolint:forcetypeassert // the end of an object or array is a Delim
	return true
}

func (m *masker) write(token any) bool {
	text, err := json.Marshal(token)
	m.out.Write(text)
	return err == nil
}
