package fingerprint

import (
	"bytes"
	"encoding/binary"
	"io"
	"mime/multipart"
	"strings"
)

const (
	// maxParts is the largest number of parts, the limit of http.Request.ParseMultipartForm.
	maxParts = 1000
	// maxPartHeaders is the largest size in bytes of all parsed part headers. It bounds
	// the time, see maxMediaType.
	maxPartHeaders = 128 << 10
)

// multipart appends a multipart form to the draft, part by part, without the excluded
// parts. It returns false if source is not a multipart form.
func (b *builder) multipart(source []byte, boundary string) bool {
	if boundary == "" {
		return false
	}
	b.partNames = append(b.partNames[:0], make([]byte, wordSize)...) // see sipHash.absorb
	b.draft.text = room(b.draft.text, len(source)+maxParts*partOverhead)
	headers := 0
	reader := multipart.NewReader(bytes.NewReader(source), boundary)
	for count := 0; count <= maxParts; count++ {
		// NextPart would decode quoted-printable and drop its header, but no other
		// transfer encoding.
		part, err := reader.NextRawPart()
		if err == io.EOF { // an unexpected end is a wrapped io.EOF
			return true
		}
		if err != nil {
			return false
		}
		if headers += parsedHeaders(part); headers > maxPartHeaders || !b.part(part) {
			return false
		}
	}
	return false
}

// partOverhead is the number of bytes that a part may take more than its spelling, so that
// the draft grows once.
const partOverhead = 32

// parsedHeaders returns the size in bytes of a part's parsed headers. If the
// disposition is too long for FormName, the result is over the limit of all parts.
func parsedHeaders(part *multipart.Part) int {
	disposition := len(part.Header.Get("Content-Disposition"))
	if disposition > maxMediaType {
		return maxPartHeaders + 1
	}
	return disposition + len(part.Header.Get("Content-Type"))
}

func (b *builder) part(part *multipart.Part) bool {
	b.decoded = append(b.decoded[:0], part.FormName()...)
	if b.matcher.skips(b.matcher.hasField(b.decoded)) {
		return true
	}
	b.partNames = appendFrame(b.partNames, b.decoded)
	for _, header := range []string{"Content-Disposition", "Content-Type"} {
		var value mediaType
		value.parse(part.Header.Get(header))
		b.label = value.append(b.label[:0], "")
		b.draft.text = appendFrame(b.draft.text, b.label)
	}
	b.draft.text = appendFrame(b.draft.text, strings.ToLower(part.Header.Get("Content-Transfer-Encoding")))
	var err error
	b.draft.text, err = appendContent(b.draft.text, part)
	return err == nil
}

// appendContent appends the content of a part as appendFrame does, without a further copy
// of a file.
func appendContent(dst []byte, r io.Reader) ([]byte, error) {
	start := len(dst)
	content := start + binary.MaxVarintLen64
	buffer := bytes.NewBuffer(append(dst, make([]byte, binary.MaxVarintLen64)...))
	_, err := buffer.ReadFrom(r)
	dst = buffer.Bytes()
	length := len(dst) - content
	end := start + binary.PutUvarint(dst[start:], uint64(length))
	return dst[:end+copy(dst[end:], dst[content:])], err
}
