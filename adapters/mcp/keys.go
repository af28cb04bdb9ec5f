package idemmcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/core"
	"github.com/oncekey/oncekey/fingerprint"
)

// KeyPlace is a place of a call that can hold its idempotency key. InArguments, InMeta
// and InHeader make one. The zero value is not valid.
type KeyPlace struct {
	of   placeKind
	name string
}

type placeKind uint8

const (
	arguments placeKind = iota + 1
	meta
	header
)

// InArguments is a member of the arguments, by its name at the root or its path, in the
// notation of policy.KeyField: "idempotency_key", "meta.idempotency-key". The value must
// be a string. A null counts as no key. A member that stands twice, in any case, is
// refused, because parsers disagree about its value.
func InArguments(path string) KeyPlace { return KeyPlace{arguments, path} }

// InMeta is a member of the call's _meta, by its name. The value must be a string. A null
// counts as no key.
func InMeta(name string) KeyPlace { return KeyPlace{meta, name} }

// InHeader is a header of the HTTP request that carries the call. Transports without HTTP
// have no such place.
func InHeader(name string) KeyPlace { return KeyPlace{header, http.CanonicalHeaderKey(name)} }

// String names the place to a client.
func (p KeyPlace) String() string {
	switch p.of {
	case arguments:
		return "arguments." + p.name
	case meta:
		return "_meta." + p.name
	default:
		return "the header " + p.name
	}
}

// DefaultKeyPlaces returns the places that protocols and clients over MCP use, because MCP
// has none of its own: AdCP's arguments.idempotency_key, ACP's
// arguments.meta.idempotency_key, UCP's arguments.meta["idempotency-key"], the spellings
// idempotency-key, idempotency_key and idempotencyKey in _meta, and the headers of
// core.WithKeyHeader, by default Idempotency-Key.
func DefaultKeyPlaces(engine *core.Engine) []KeyPlace {
	places := defaultPlaces()
	for _, name := range engine.KeyHeaders() {
		places = append(places, InHeader(name))
	}
	return places
}

// defaultPlaces are those of DefaultKeyPlaces that a call itself has.
func defaultPlaces() []KeyPlace {
	return []KeyPlace{
		InArguments("idempotency_key"), InArguments("meta.idempotency_key"), InArguments("meta.idempotency-key"),
		InMeta("idempotency-key"), InMeta("idempotency_key"), InMeta("idempotencyKey"),
	}
}

// headerLetters are the characters of a header's name (RFC 9110, section 5.6.2).
const headerLetters = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// check returns an error that names the place and the expected form.
func (p KeyPlace) check() error {
	switch {
	case p.of == arguments:
		_, err := fingerprint.ParseMember(p.name)
		return err
	case p.of == meta && p.name == "":
		return errors.New(`InMeta is given "": give the name of a member, such as idempotency-key`)
	case p.of == header && (p.name == "" || strings.Trim(p.name, headerLetters) != ""):
		return fmt.Errorf("InHeader is given %q: give a header name, such as Idempotency-Key", p.name)
	case p.of == 0:
		return errors.New("a KeyPlace is empty: make it with InArguments, InMeta or InHeader")
	default:
		return nil
	}
}

// keyFinder finds the key of a tool's calls, and makes the text of the arguments without
// it. It is immutable.
type keyFinder struct {
	places  []KeyPlace
	members map[KeyPlace]*fingerprint.Member // of the places in the arguments
	without *fingerprint.Exclusion           // those members
	around  []container                      // the objects around them, innermost first
}

// container is an object of the arguments that is there for a key.
type container struct {
	member  *fingerprint.Member
	without *fingerprint.Exclusion
}

// root is the name of the arguments in the document that the finder reads. Under a root,
// the exclusion of a name does not reach members of the same name deeper down.
const root = "arguments"

// newKeyFinder compiles places that check has accepted. The engine itself reads the
// policy's KeyField, so that it must stay in the text.
func newKeyFinder(places []KeyPlace, keyField string, notCompared ...string) *keyFinder {
	f := &keyFinder{members: make(map[KeyPlace]*fingerprint.Member)}
	var paths, outer []string
	for _, place := range places {
		if place.of == arguments {
			if place.name == keyField {
				continue
			}
			f.members[place], _ = fingerprint.ParseMember(root + "." + place.name)
			paths = append(paths, root+"."+place.name)
			outer = append(outer, pathsAround(place.name)...)
		}
		f.places = append(f.places, place)
	}
	for _, name := range notCompared {
		paths = append(paths, root+"."+name)
	}
	f.without, _ = fingerprint.Exclude(paths...)
	for _, path := range outer {
		member, _ := fingerprint.ParseMember(root + "." + path)
		without, _ := fingerprint.Exclude(root + "." + path)
		f.around = append(f.around, container{member, without})
	}
	return f
}

// pathsAround returns the paths of the objects around a member, innermost first.
func pathsAround(path string) (all []string) {
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			i++
		case '.':
			all = slices.Insert(all, 0, path[:i])
		}
	}
	return all
}

// found is the key of a call.
type found struct {
	key   string
	given bool   // there is a key
	wrong string // says why the call's key is refused, or ""
	body  []byte // the arguments without the key, as JSON
}

var open, closing = []byte(`{"` + root + `":`), []byte("}")

// find reads the key of a call. Absent arguments count as {}, and so does null: the SDK
// gives typed tools the same input for all three.
func (f *keyFinder) find(call *mcp.CallToolRequest) (result found) {
	written := []byte(call.Params.Arguments)
	if len(written) == 0 || string(written) == "null" {
		written = []byte("{}")
	}
	document := slices.Concat(open, written, closing)
	stripped, err := f.without.Strip(document)
	if err != nil {
		return found{wrong: "arguments must be JSON of at most 512 levels", body: written}
	}
	var from KeyPlace
	for _, place := range f.places {
		if place.of == arguments && len(stripped) == len(document) {
			continue // no place in the arguments has a member
		}
		key, given, err := f.read(place, call, document)
		switch {
		case err != nil:
			return found{wrong: err.Error(), body: written}
		case !given:
		case result.given && key != result.key:
			return found{wrong: fmt.Sprintf("%s and %s must be the same key", from, place), body: written}
		default:
			result.key, result.given, from = key, true, place
		}
	}
	stripped = f.withoutEmpty(stripped)
	result.body = stripped[len(open) : len(stripped)-len(closing)]
	return result
}

// withoutEmpty removes the containers that are empty without the key, so that a retry may
// carry its key in another place.
func (f *keyFinder) withoutEmpty(document []byte) []byte {
	for _, c := range f.around {
		value, err := c.member.Find(document)
		if err != nil || len(value) < 2 || value[0] != '{' || len(bytes.TrimSpace(value[1:len(value)-1])) > 0 {
			continue
		}
		if stripped, err := c.without.Strip(document); err == nil {
			document = stripped
		}
	}
	return document
}

// read reads one place.
func (f *keyFinder) read(place KeyPlace, call *mcp.CallToolRequest, document []byte) (key string, given bool, err error) {
	switch place.of {
	case arguments:
		written, err := f.members[place].Find(document)
		if errors.Is(err, fingerprint.ErrRepeatedMember) {
			return "", false, fmt.Errorf("%s must be given once", place)
		}
		var value any
		if err == nil {
			_ = json.Unmarshal(written, &value) // a part of valid JSON
		}
		return text(place, value)
	case meta:
		return text(place, call.Params.Meta[place.name])
	default:
		return readHeader(place.name, call)
	}
}

// text returns the key of a member, which is nil where the call has none.
func text(place KeyPlace, value any) (key string, given bool, err error) {
	key, given = value.(string)
	if !given && value != nil {
		err = fmt.Errorf("%s must be a string", place)
	}
	return key, given, err
}

// readHeader reads a header of the HTTP request that carries the call.
func readHeader(name string, call *mcp.CallToolRequest) (key string, given bool, err error) {
	if call.Extra == nil {
		return "", false, nil
	}
	switch values := call.Extra.Header[name]; len(values) {
	case 0:
		return "", false, nil
	case 1:
		key, err = core.ParseKey(values[0])
		return key, err == nil, err
	default:
		return "", false, fmt.Errorf("the header %s must be given once", name)
	}
}

// headerValues returns the values of the key's header in the engine's request. Two values
// are a key that the engine refuses.
func (f *found) headerValues() []string {
	switch {
	case f.wrong != "":
		return []string{"", ""}
	case f.given:
		return []string{`"` + escapes.Replace(f.key) + `"`}
	default:
		return nil
	}
}

// escapes writes a key as an RFC 8941 string, which can hold every key.
var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
