package storage

// Header holds the header changes of one handler, relative to the header that outer
// middleware had set. Applying a Header to another response writer repeats the
// changes. Order and number of the values of a name are kept.
type Header []Field

// Field is one value of one header name.
type Field struct {
	// Op says how the value combines with the values of outer middleware.
	Op    FieldOp
	Name  string
	Value string
}

// FieldOp is how a Field is applied.
type FieldOp uint8

// The operations of a Field.
const (
	// Set replaces the values of outer middleware under this name. A second Set of
	// the same name adds a value to the first.
	Set FieldOp = iota
	// Add keeps the values of outer middleware, and adds one.
	Add
	// Delete removes the values of outer middleware. Where there are none, it keeps
	// net/http from adding a default value. Value is empty.
	Delete
	// Sealed is no change of a header. A field of it, alone in its header, says that
	// the Body is sealed (see package sealedstore), and stores keep it like any other.
	// The engine and stores that do not know it refuse the record with ErrCorruptRecord,
	// so that a process without the seal never replays ciphertext.
	Sealed
)
