package fresh

import (
	"cmp"
	"container/heap"
	"fmt"
	"maps"
	"slices"

	"github.com/dlclark/regexp2"
)

// byteLetters maps every byte to one printable letter, as GPT-2 does: printable bytes to themselves, the rest to code
// points starting at 256.
var byteLetters = func() (letters [256]rune) {
	next := rune(256)
	for b := range letters {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			letters[b] = rune(b)
		} else {
			letters[b] = next
			next++
		}
	}
	return letters
}()

// bpe is a byte-level byte-pair encoding. The ids of Tokens are their indices.
type bpe struct {
	// Tokens are, in byteLetters' spelling, the 256 bytes in the order of their letters, then the same with the suffix
	// if there is one, then the merges.
	Tokens []string
	Merges [][2]string // in the order of their rank
}

// pair is two neighbouring token ids.
type pair [2]int32

// candidate is a pair with its count when it was queued and the words it was seen in.
type candidate struct {
	pair  pair
	count int
	words []int32
}

// queue is a heap: highest count first; ties go to the pair with the smallest ids.
type queue []candidate

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(c any)   { *q = append(*q, c.(candidate)) }
func (q *queue) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[j].count, q[i].count), slices.Compare(q[i].pair[:], q[j].pair[:])) < 0
}

// trainBPE learns merges from documents, cut into words by a regular expression, until there are size tokens (at least
// the 256 bytes) or no neighbouring tokens are left to merge. The result depends only on the documents, and is the same
// as the tokenizers library's (BpeTrainer with the byte-level alphabet and a pre-tokenizer with that expression). A
// suffix (CLIP's "</w>") is appended to the last byte of every word, which makes it a different token; the minimum size
// is then 512.
func trainBPE(documents []string, words, suffix string, size int) (*bpe, error) {
	least := 256
	if suffix != "" {
		least = 512
	}
	if size < least {
		return nil, fmt.Errorf("%d tokens: byte-level encoding needs at least %d", size, least)
	}
	texts, counts, err := countWords(documents, words)
	if err != nil {
		return nil, err
	}
	t := newTrainer(texts, counts, suffix)
	for len(t.tokens) < size && t.merge() {
	}
	return t.result(), nil
}

// countWords cuts documents into words and counts them; the words are sorted.
func countWords(documents []string, words string) (texts []string, counts []int, err error) {
	pattern, err := regexp2.Compile(words, regexp2.None)
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]int{}
	for _, document := range documents {
		m, err := pattern.FindStringMatch(document)
		for ; m != nil && err == nil; m, err = pattern.FindNextMatch(m) {
			seen[m.String()]++
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cutting text into words: %w", err)
		}
	}
	texts = slices.Sorted(maps.Keys(seen))
	for _, text := range texts {
		counts = append(counts, seen[text])
	}
	return texts, counts, nil
}

// trainer is the state between merges.
type trainer struct {
	tokens []string
	ids    map[string]int32
	words  [][]int32 // token ids of every distinct word
	counts []int     // how often the word occurs
	pairs  map[pair]int
	queue  queue
	merges []pair
}

func newTrainer(texts []string, counts []int, suffix string) *trainer {
	t := &trainer{ids: map[string]int32{}, counts: counts, pairs: map[pair]int{}}
	for _, letter := range slices.Sorted(slices.Values(byteLetters[:])) {
		t.ids[string(letter)] = int32(len(t.tokens))
		t.tokens = append(t.tokens, string(letter))
	}
	last := int32(0) // from a byte's id to that of the same byte at the end of a word
	if suffix != "" {
		last = int32(len(t.tokens))
		for id, letter := range t.tokens {
			t.ids[letter+suffix] = last + int32(id)
			t.tokens = append(t.tokens, letter+suffix)
		}
	}
	var byteIDs [256]int32
	for b, letter := range byteLetters {
		byteIDs[b] = t.ids[string(letter)]
	}
	where := map[pair][]int32{}
	for w, text := range texts {
		word := make([]int32, len(text))
		for i := range len(text) {
			word[i] = byteIDs[text[i]]
		}
		word[len(word)-1] += last
		t.words = append(t.words, word)
		for i := range len(word) - 1 {
			t.count(where, pair{word[i], word[i+1]}, 1, int32(w))
		}
	}
	t.enqueue(where)
	return t
}

// count adds change occurrences of p in a word; where collects the words that gained one.
func (t *trainer) count(where map[pair][]int32, p pair, change int, word int32) {
	t.pairs[p] += change * t.counts[word]
	if words := where[p]; change > 0 && (len(words) == 0 || words[len(words)-1] != word) {
		where[p] = append(words, word)
	}
}

func (t *trainer) enqueue(where map[pair][]int32) {
	for p, words := range where {
		if n := t.pairs[p]; n > 0 {
			heap.Push(&t.queue, candidate{p, n, words})
		}
	}
}

// merge turns the most frequent pair into one token; false if there is none. Counts in the queue may be stale: such a
// pair is queued again with its current count.
func (t *trainer) merge() bool {
	for len(t.queue) > 0 {
		top := heap.Pop(&t.queue).(candidate)
		if n := t.pairs[top.pair]; n != top.count {
			top.count = n
			heap.Push(&t.queue, top)
			continue
		}
		if top.count < 1 {
			return false
		}
		text := t.tokens[top.pair[0]] + t.tokens[top.pair[1]]
		id, known := t.ids[text] // two pairs may spell the same token
		if !known {
			id = int32(len(t.tokens))
			t.ids[text] = id
			t.tokens = append(t.tokens, text)
		}
		t.merges = append(t.merges, top.pair)
		where := map[pair][]int32{}
		for _, w := range top.words {
			t.words[w] = t.replace(where, w, top.pair, id)
		}
		t.enqueue(where)
		return true
	}
	return false
}

// replace merges p in one word and updates the counts of the pairs that disappear and appear.
func (t *trainer) replace(where map[pair][]int32, w int32, p pair, id int32) []int32 {
	word := t.words[w]
	out := word[:0]
	for i := 0; i < len(word); i++ {
		if i+1 == len(word) || word[i] != p[0] || word[i+1] != p[1] {
			out = append(out, word[i])
			continue
		}
		if n := len(out); n > 0 {
			t.count(where, pair{out[n-1], p[0]}, -1, w)
			t.count(where, pair{out[n-1], id}, 1, w)
		}
		if i+2 < len(word) {
			t.count(where, pair{p[1], word[i+2]}, -1, w)
			t.count(where, pair{id, word[i+2]}, 1, w)
		}
		out = append(out, id)
		i++
	}
	return out
}

// result spells the merges out. A pair that was merged twice keeps its later rank, as in the tokenizers library.
func (t *trainer) result() *bpe {
	b := &bpe{Tokens: t.tokens}
	last := map[pair]int{}
	for rank, p := range t.merges {
		last[p] = rank
	}
	for rank, p := range t.merges {
		if last[p] == rank {
			b.Merges = append(b.Merges, [2]string{t.tokens[p[0]], t.tokens[p[1]]})
		}
	}
	return b
}
