package fingerprint

import "hash"

// builder holds the buffers for one fingerprint at a time.
type builder struct {
	draft   draft
	matcher matcher
	label   []byte    // one query or media type at a time
	decoded []byte    // one name or value of a form at a time
	spelled bool      // the form is one pair, which is not decoded
	hash    hash.Hash // of sum, on first use

	// For sketches:
	of        kind   // kind of the body
	queryText span   // in the draft
	bodyText  span   // in the draft; empty for a raw body
	partNames []byte // framed names of the parts in the draft
	survey    survey
	tagger    tagger
	tagging   bool // for a sketch under tagKey
	tagged    bool // the whole JSON body
	tagKey    [16]byte
	sketcher  sketcher
	comparer  comparer
}

// release empties b and drops buffers that a huge request made grow.
func (b *builder) release() {
	b.draft.reset()
	b.matcher.reset()
	b.survey.reset()
	empty(&b.label)
	empty(&b.decoded)
	empty(&b.partNames)
	b.tagging, b.tagged, b.tagKey = false, false, [16]byte{}
}
