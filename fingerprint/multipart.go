package fingerprint

import (
	"bytes"
	"io"
	"mime/multipart"
	"slices"
	"strings"
)

const (
	// maxParts is how many parts a form may have, as for http.Request.ParseMultipartForm.
	maxParts = 1000
	// maxPartHeaders is how many bytes the headers of all parts may have that are parsed.
	// It bounds the time, see maxMediaType.
	maxPartHeaders = 128 << 10
)

// multipart appends a form of that kind to the draft, part by part and without
// the excluded ones. If source is no such form it returns false.
func (b *builder) multipart(source []byte, boundary string) bool {
	if boundary == "" {
		return false
	}
	b.partNames = append(b.partNames[:0], make([]byte, wordSize)...) // see sipHash.absorb
	headers := 0
	reader := multipart.NewReader(bytes.NewReader(source), boundary)
	for count := 0; count <= maxParts; count++ {
		// Raw, for NextPart undoes the transfer encoding quoted-printable in
		// secret, and no other.
		part, err := reader.NextRawPart()
		if err == io.EOF { // itself: an end in the wrong place is wrapped
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

// partFrames is how many frames a part leaves: three headers and the content.
const partFrames = 4

// parsedHeaders returns how many bytes of a part's headers are to be parsed; more than
// all parts may have, if one is too long for FormName.
func parsedHeaders(part *multipart.Part) int {
	disposition := len(part.Header.Get("Content-Disposition"))
	if disposition > maxMediaType {
		return maxPartHeaders + 1
	}
	return disposition + len(part.Header.Get("Content-Type"))
}

func (b *builder) part(part *multipart.Part) bool {
	b.decoded = append(b.decoded[:0], part.FormName()...)
	if b.matcher.exclusion.fields.has(b.decoded) {
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
	content, err := appendAll(b.decoded[:0], part)
	b.decoded = content
	b.draft.text = appendFrame(b.draft.text, content)
	return err == nil
}

// appendAll appends all that r has to give.
func appendAll(dst []byte, r io.Reader) ([]byte, error) {
	for {
		dst = slices.Grow(dst, 512)
		read, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+read]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
