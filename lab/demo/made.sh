# For scripts that resume where they stopped, to be sourced: made runs a step unless its result is there. $out is their folder.

# made TARGET NAME INPUT... -- COMMAND...: runs the command unless the target is newer than all inputs; keeps its time.
made() {
	local target=$1 name=$2 newer=yes start=$SECONDS code=0
	shift 2
	while [ "$1" != -- ]; do
		[ "$target" -nt "$1" ] || newer=no
		shift
	done
	shift
	[ -e "$target" ] || newer=no
	printf '\n== %s%s\n' "$name" "$([ $newer = yes ] && echo ': done before')"
	[ $newer = no ] || return 0
	printf '$ %s\n' "$*"
	"$@" || code=$?
	printf '%s\t%d\t%d\n' "$name" $((SECONDS - start)) $code >>"$out/times.tsv"
	[ $code != 3 ] || echo "make demo goes on from here" >&2
	return $code
}
