package fingerprint

// walker goes through a document once. It validates the document by RFC 8259 and
// appends the canonical form to a draft. The recursion is at most maxDepth deep.
//
// Each method takes the offset in source of the value to read, and returns the end
// offset or malformed. Most methods also take the offset in text to write to, and
// return the end of the written text. Fields of the walker would be slower than
// these parameters.
type walker struct {
	source    []byte
	text      []byte // the draft's text, with capacity for the whole document
	depth     int
	draft     *draft
	matcher   *matcher
	tagger    *tagger   // possibly nil
	recording bool      // whether to gather removals
	removals  []removal // excluded members and elements, in order
}

const malformed = -1

// removal locates an excluded member or element in the source.
type removal struct {
	start, end int // the range to cut, with one adjacent comma
	value      int // start of the value
	valueEnd   int
}
