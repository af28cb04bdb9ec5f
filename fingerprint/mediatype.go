package fingerprint

import (
	"maps"
	"mime"
	"slices"
	"strings"
)

// mediaType is a parsed Content-Type or Content-Disposition. Both have one syntax.
type mediaType struct {
	spelled    string
	name       string // in lower case; empty if malformed
	parameters map[string]string
	uncertain  bool // parsing may have dropped a parameter
}

const jsonType = "application/json"

// maxMediaType is the longest parsed header in bytes. Parsing takes hundreds of times
// as long as hashing, and makes garbage for each parameter.
const maxMediaType = 4 << 10

// parse parses spelled into m, which must be zero. A header longer than maxMediaType
// counts as malformed. The usual cases do not allocate: no parameters, or only
// charset=utf-8.
func (m *mediaType) parse(spelled string) {
	m.spelled = spelled
	if len(spelled) > maxMediaType {
		return
	}
	if spelled == jsonType {
		m.name = jsonType
		return
	}
	name, parameters, _ := strings.Cut(spelled, ";")
	parameters = strings.TrimSpace(parameters)
	if parameters == "" || strings.EqualFold(parameters, "charset=utf-8") {
		name = strings.TrimSpace(name)
		if isMediaType(name) {
			m.name = strings.ToLower(name)
		}
		return
	}
	name, values, err := mime.ParseMediaType(spelled)
	if err != nil || !isMediaType(name) {
		return
	}
	m.name, m.parameters = name, values
	if strings.EqualFold(values["charset"], "utf-8") {
		delete(values, "charset")
	}
	// ParseMediaType drops a parameter in the notation of RFC 2231 if its escapes
	// are malformed or if the plain notation is given as well.
	m.uncertain = strings.Contains(spelled, "*")
}

// isPlainJSON reports whether m is application/json without parameters that count.
func (m *mediaType) isPlainJSON() bool {
	return m.name == jsonType && len(m.parameters) == 0 && !m.uncertain
}

// isMediaType reports whether name is a type and subtype, or a single word as in
// a Content-Disposition.
func isMediaType(name string) bool {
	main, sub, slash := strings.Cut(name, "/")
	return isToken(main) && (isToken(sub) || !slash)
}

func isToken(word string) bool {
	for i := range len(word) {
		if !tokenCharacters[word[i]] {
			return false
		}
	}
	return word != ""
}

var tokenCharacters = func() (is [256]bool) {
	for char := '!'; char <= '~'; char++ {
		is[char] = !strings.ContainsRune(`()<>@,;:\"/[]?=`, char)
	}
	return is
}()

// boundary is the parameter that separates the parts of a form.
const boundary = "boundary"

// append appends the canonical form of m, without the ignored parameter. A malformed
// or uncertain media type counts as spelled.
func (m *mediaType) append(dst []byte, ignored string) []byte {
	if m.name == "" || m.uncertain {
		dst = append(dst, 'r')
		return appendFrame(dst, m.spelled)
	}
	dst = append(dst, 'd')
	dst = appendFrame(dst, m.name)
	if len(m.parameters) == 0 {
		return dst // sorting an empty map would make garbage
	}
	for _, name := range slices.Sorted(maps.Keys(m.parameters)) {
		if name != ignored {
			dst = appendFrame(dst, name)
			dst = appendFrame(dst, m.parameters[name])
		}
	}
	return dst
}

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
