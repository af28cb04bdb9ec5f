package fingerprint

import "io"

// sorter collects sorted text. With a writer it passes the text on when the buffer is
// full. Otherwise the buffer has the capacity for the whole text.
type sorter struct {
	buffer []byte
	to     io.Writer
}

func (s *sorter) put(text []byte) {
	if s.to != nil && len(s.buffer)+len(text) > cap(s.buffer) {
		s.flush()
		if len(text) > cap(s.buffer) {
			_, _ = s.to.Write(text) // a hash returns no errors
			return
		}
	}
	s.buffer = append(s.buffer, text...)
}

func (s *sorter) flush() {
	_, _ = s.to.Write(s.buffer)
	s.buffer = s.buffer[:0]
}
