package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
)

// version is the first part of every fingerprint. Stored fingerprints outlive a
// deployment, so any change of the rules that moves one must change it.
const version = "oncekey/fingerprint/1"

const prefix = "sha256:"

// maxCanonical bounds what is put in canonical form, so that offsets into it fit
// in 32 bits; anything longer counts byte by byte.
const maxCanonical = 256 << 20

// Request is what is fingerprinted. The zero value is a valid request with
// nothing in it.
type Request struct {
	Method      string // as received
	Path        string // concrete, in one canonical spelling
	RawQuery    string // without the question mark, undecoded
	ContentType string // the header's value
	Body        []byte // read, never kept or changed
}

// Of returns the fingerprint of r without what x excludes: "sha256:" and 64
// lower-case hexadecimal digits. A nil x excludes nothing. It is safe for
// concurrent use.
func Of(r Request, x *Exclusion) string {
	b := builders.Get().(*builder)
	b.matcher.use(x)
	b.sink.frameString(version)
	b.sink.frameString(r.Method)
	b.sink.frameString(r.Path)
	b.query(r.RawQuery)
	b.body(r.ContentType, r.Body)

	var digest [len(prefix) + 64]byte
	copy(digest[:], prefix)
	hex.Encode(digest[len(prefix):], b.sink.sum())
	b.release()
	return string(digest[:])
}

// builder holds the buffers that making a fingerprint needs.
type builder struct {
	sink    sink
	draft   draft
	matcher matcher
	label   []byte // the query, the media type, one at a time
	decoded []byte // a name, a value or a content of a form, one at a time
}

var builders = sync.Pool{New: func() any { return &builder{sink: sink{hash: sha256.New()}} }}

// release gives b back to the pool without what a large request made it grow.
func (b *builder) release() {
	b.sink.reset()
	b.draft.reset()
	b.matcher.reset()
	b.label = reusable(b.label)
	b.decoded = reusable(b.decoded)
	builders.Put(b)
}

// maxPooled is how many bytes a buffer may have to be pooled.
const maxPooled = 64 << 10

// reusable returns buffer emptied, or nil when it is too large to keep.
func reusable(buffer []byte) []byte {
	if cap(buffer) > maxPooled {
		return nil
	}
	return buffer[:0]
}

// kind tells how a body was read, so that no raw body can pass for a canonical one.
type kind string

const (
	kindJSON      kind = "json"
	kindForm      kind = "form"
	kindMultipart kind = "multipart"
	kindRaw       kind = "raw"
)

// query adds the query to the fingerprint.
func (b *builder) query(raw string) {
	if len(raw) > maxCanonical {
		b.sink.frameString(string(kindRaw))
		b.sink.frameString(raw)
		return
	}
	b.label = append(b.label[:0], raw...)
	b.draft.reset()
	b.form(b.label)
	b.sink.frameString(string(kindForm))
	b.draft.frameTo(&b.sink)
}

// body adds the media type, the kind of body and the body to the fingerprint.
func (b *builder) body(contentType string, body []byte) {
	media := parseMediaType(contentType)
	found := b.canonical(media, body)
	if found == kindMultipart {
		// The boundary is made up for each attempt. It may go because the
		// parts have been told apart; in raw bytes it says where they begin.
		delete(media.parameters, "boundary")
	}
	b.label = media.append(b.label[:0])
	b.sink.frame(b.label)
	b.sink.frameString(string(found))
	if found == kindRaw {
		b.sink.frame(body)
		return
	}
	b.draft.frameTo(&b.sink)
}

// canonical leaves the canonical form of body in the draft, if it has one.
func (b *builder) canonical(media mediaType, body []byte) kind {
	b.draft.reset()
	switch {
	case len(body) > maxCanonical:
		return kindRaw
	case media.name == "application/json", strings.HasSuffix(media.name, "+json"):
		if validate(body) != nil {
			return kindRaw
		}
		b.json(body)
		return kindJSON
	case media.name == "application/x-www-form-urlencoded":
		b.form(body)
		return kindForm
	case media.name == "multipart/form-data" && b.multipart(body, media.parameters["boundary"]):
		return kindMultipart
	default:
		return kindRaw
	}
}
