package storage

// Header is the part of an answer's header that the handler itself made: what
// it changed in the header that outer middleware had left there. Applying it
// to another response writer repeats those changes. Order and number of the
// values of a name are kept.
type Header []Field

// Field is one value of one header name.
type Field struct {
	// Op says how the value meets what outer middleware has set.
	Op    FieldOp
	Name  string
	Value string
}

// FieldOp is how a Field is applied.
type FieldOp uint8

// The operations of a Field.
const (
	// Set replaces what outer middleware set under this name; a second Set of
	// the same name adds its value to the first.
	Set FieldOp = iota
	// Add leaves what outer middleware set, and adds the value.
	Add
	// Delete removes what outer middleware set, and keeps net/http from adding
	// a value of its own. Value is empty.
	Delete
)
