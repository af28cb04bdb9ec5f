package tablefile

import (
	"bytes"
	"fmt"
	"regexp"
)

// The parser needs time that grows with the square of the depth, and of the number of block
// texts, so these are checked before.
const (
	maxFile = 256 << 10
	// maxDepth is far above the four levels of a table.
	maxDepth = 100
	// maxBlocks is far above the block texts of a table, which needs none.
	maxBlocks = 100
)

// block matches a line after which a block text begins.
var block = regexp.MustCompile(`[|>][-+0-9]*[ \t]*(#.*)?[\r\n]*$`)

// tooDeep returns an error with its line for a text that is nested more deeply than maxDepth:
// by brackets that are open at once, by list items or keys in one line ("- - -"), or by
// indentation. Many block texts are an error too. It reads each byte once, and counts those in quotes and comments too.
func tooDeep(data []byte) (line int, err error) {
	open, blocks, levels := 0, 0, make([]int, 0, maxDepth+1) // the indentations around the line
	for text := range bytes.Lines(data) {
		line++
		rest := bytes.TrimLeft(text, " -?\t")
		lead := text[:len(text)-len(rest)]
		marks := bytes.Count(lead, []byte("-")) + bytes.Count(lead, []byte("?"))
		if len(bytes.TrimSpace(rest)) > 0 {
			for len(levels) > 0 && levels[len(levels)-1] >= len(lead) {
				levels = levels[:len(levels)-1]
			}
			levels = append(levels, len(lead))
		}
		for _, one := range rest {
			switch one {
			case '[', '{':
				open++
			case ']', '}':
				open = max(0, open-1)
			}
			if open > maxDepth {
				break
			}
		}
		if block.Match(text) {
			blocks++
		}
		if blocks > maxBlocks {
			return line, fmt.Errorf("the file has more than %d block texts (| or >): a table needs none", maxBlocks)
		}
		if deepest := max(open, marks, len(levels)); deepest > maxDepth {
			return line, fmt.Errorf("the file is nested more than %d levels deep: a table has four", maxDepth)
		}
	}
	return line, nil
}
