# To be sourced by scripts that resume where they stopped: made runs a step unless its result exists. $out is their folder.

# made TARGET NAME INPUT... -- COMMAND...: runs the command unless the target is newer than all inputs; records its time.
made() {
	local target=$1 name=$2 newer=yes start=$SECONDS code=0
	shift 2
	while [ "$1" != -- ]; do
		[ "$target" -nt "$1" ] || newer=no
		shift
	done
	shift
	[ -e "$target" ] || newer=no
	printf '\n== %s%s\n' "$name" "$([ $newer = yes ] && echo ': up to date')"
	[ $newer = no ] || return 0
	printf '$ %s\n' "$*"
	"$@" || code=$?
	printf '%s\t%d\t%d\n' "$name" $((SECONDS - start)) $code >>"$out/times.tsv"
	[ $code != 3 ] || echo "run make demo again to resume from here" >&2
	return $code
}
