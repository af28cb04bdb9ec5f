package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// sink gathers small writes, for a hash is slow on them, and hashes them. The
// zero value needs a hash.
type sink struct {
	hash    hash.Hash
	pending []byte
	digest  [sha256.Size]byte
}

// gather is how many bytes are gathered before they are hashed.
const gather = 8 << 10

// frame adds one part: its length, so that parts cannot run together, and itself.
func (s *sink) frame(part []byte) {
	s.frameLength(len(part))
	s.write(part)
}

// frameString adds one part, like frame.
func (s *sink) frameString(part string) {
	s.frameLength(len(part))
	s.pending = append(s.pending, part...)
	if len(s.pending) > gather {
		s.flush()
	}
}

// frameLength announces a part of so many bytes.
func (s *sink) frameLength(length int) {
	s.pending = binary.BigEndian.AppendUint64(s.pending, uint64(length))
}

func (s *sink) write(text []byte) {
	if len(s.pending)+len(text) > gather {
		s.flush()
		if len(text) > gather {
			s.hash.Write(text)
			return
		}
	}
	s.pending = append(s.pending, text...)
}

func (s *sink) flush() {
	s.hash.Write(s.pending)
	s.pending = s.pending[:0]
}

// sum returns the hash of everything written, valid until the next write.
func (s *sink) sum() []byte {
	s.flush()
	return s.hash.Sum(s.digest[:0])
}

func (s *sink) reset() {
	s.hash.Reset()
	s.pending = reusable(s.pending)
}
