package fingerprint

import "strings"

// maxCanonical bounds text in canonical form, so that offsets fit in 32 bits. Longer
// text counts byte by byte.
const maxCanonical = 256 << 20

// kind names the way a body was read, so that a raw body never equals a canonical
// body.
type kind string

const (
	kindQuery     kind = "query" // in sketches only
	kindJSON      kind = "json"
	kindForm      kind = "form"
	kindMultipart kind = "multipart"
	kindRaw       kind = "raw"
)

// kindOf returns the kind that the media type announces.
func kindOf(media *mediaType, body []byte) kind {
	switch {
	case len(body) > maxCanonical:
		return kindRaw
	case media.name == jsonType, strings.HasSuffix(media.name, "+json"):
		return kindJSON
	case media.name == "application/x-www-form-urlencoded":
		return kindForm
	case media.name == "multipart/form-data":
		return kindMultipart
	default:
		return kindRaw
	}
}
