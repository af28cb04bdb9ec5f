package fingerprint

import "crypto/sha256"

// version is the first part of every fingerprint. Stored fingerprints outlive a
// deployment, so any change of the rules that changes a fingerprint must change
// version.
const version = "oncekey/1"

// Request holds the fingerprinted parts of a request. The zero value is a valid,
// empty request.
type Request struct {
	Method      string // as received
	Path        string // concrete, in one canonical spelling
	RawQuery    string // without the question mark, undecoded
	ContentType string // the header's value
	Body        []byte // read only, never kept

	// Headers are further header fields that count, in the order of the values.
	Headers []HeaderField
}

// HeaderField is one value of a request header.
type HeaderField struct{ Name, Value string }

// read fills the draft. A raw body is returned and hashed after the draft.
func (b *builder) read(r *Request, x *Exclusion) (raw []byte) {
	b.matcher.use(x.ofQuery())
	b.draft.text = append(b.draft.text, beginning...)
	b.draft.text = appendFrame(appendFrame(b.draft.text, r.Method), r.Path)
	if len(r.Headers) > 0 {
		b.headers(r.Headers)
	}
	b.query(r.RawQuery)
	b.matcher.use(x)
	return b.body(r.ContentType, r.Body)
}

// headers adds header fields to the fingerprint.
func (b *builder) headers(fields []HeaderField) {
	b.draft.text = appendFrame(b.draft.text, "headers")
	content := b.draft.beginFrame()
	for _, field := range fields {
		b.draft.text = appendFrame(appendFrame(b.draft.text, field.Name), field.Value)
	}
	b.draft.endFrame(content)
}

// sum hashes the draft, with its members sorted, and then raw.
func (b *builder) sum(raw []byte, digest *[sha256.Size]byte) {
	if len(b.draft.groups)+len(raw) == 0 {
		*digest = sha256.Sum256(b.draft.text)
		return
	}
	if b.hash == nil {
		b.hash = sha256.New()
	}
	b.hash.Reset()
	b.draft.writeSorted(b.hash, span{0, uint32(len(b.draft.text))}, len(b.draft.groups))
	b.hash.Write(raw) // saves a copy
	b.hash.Sum(digest[:0])
}

// Framed parts that most requests have in common.
var (
	beginning   = string(appendFrame(nil, version))
	noQuery     = string(appendFrame(nil, string(kindForm))) + string(make([]byte, frameHeader))
	jsonHeading = string(appendFrame(appendFrame(nil, (&mediaType{name: jsonType}).append(nil, "")), string(kindJSON)))
)

// query adds the query to the fingerprint.
func (b *builder) query(raw string) {
	if raw == "" {
		b.draft.text = append(b.draft.text, noQuery...)
		b.queryText = span{}
		return
	}
	if len(raw) <= maxCanonical {
		before := len(b.draft.text)
		b.label = append(b.label[:0], raw...)
		b.draft.text = appendFrame(b.draft.text, string(kindForm))
		content := b.draft.beginFrame()
		if b.form(b.label) {
			b.queryText = b.draft.endFrame(content)
			return
		}
		b.draft.cut(before)
	}
	b.draft.text = appendFrame(appendFrame(b.draft.text, string(kindRaw)), raw)
	b.queryText = span{}
}

// body adds the media type, the kind of body and the body to the fingerprint. A body
// that counts byte by byte is returned and hashed after the draft.
func (b *builder) body(contentType string, body []byte) (raw []byte) {
	var media mediaType
	media.parse(contentType)
	if of := kindOf(&media, body); of != kindRaw {
		before := len(b.draft.text)
		content := b.heading(&media, of)
		if b.canonical(of, &media, body) {
			b.of, b.bodyText = of, b.draft.endFrame(content)
			return nil
		}
		b.draft.cut(before)
	}
	content := b.heading(&media, kindRaw)
	b.draft.frameLength(content, len(body))
	b.of, b.bodyText = kindRaw, span{}
	return body
}

// heading adds the media type and the kind of body, and begins the frame of the body.
func (b *builder) heading(media *mediaType, of kind) (content int) {
	if of == kindJSON && media.isPlainJSON() {
		b.draft.text = append(b.draft.text, jsonHeading...)
		return b.draft.beginFrame()
	}
	ignored := ""
	if of == kindMultipart {
		// The client makes a new boundary for each attempt. Parsed parts do not need
		// the boundary; in raw bytes it separates the parts and must count.
		ignored = boundary
	}
	b.label = media.append(b.label[:0], ignored)
	b.draft.text = appendFrame(appendFrame(b.draft.text, b.label), string(of))
	return b.draft.beginFrame()
}

// canonical appends the canonical form of body to the draft. It returns false if body
// is not of that kind; the draft may then end in partial text.
func (b *builder) canonical(of kind, media *mediaType, body []byte) bool {
	if b.matcher.exclusion.only {
		before := len(b.draft.text)
		b.matcher.hits = 0
		if valid := b.canonicalBody(of, media, body); !valid || b.matcher.hits > 0 {
			return valid
		}
		b.draft.cut(before)
		b.matcher.use(nil) // no field that counts is present: the whole body counts
	}
	return b.canonicalBody(of, media, body)
}

func (b *builder) canonicalBody(of kind, media *mediaType, body []byte) bool {
	switch of {
	case kindJSON:
		return b.json(body) == nil
	case kindForm:
		return b.form(body)
	case kindMultipart:
		return b.multipart(body, media.parameters[boundary])
	default:
		return false
	}
}
