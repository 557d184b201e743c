#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# bazel run //tests/streams:mutant_bundle -- DIR
#
# Makes a folder whose run.sh runs the mutants on a host that has a driver and
# no Bazel. BUILD puts the arguments of mutants.sh before DIR.
set -euo pipefail

usage='usage: bazel run //tests/streams:mutant_bundle -- DIR'
[ $# -gt 1 ] || {
    printf 'mutant_bundle: no folder named; %s\n' "$usage" >&2
    exit 1
}
folder=${*: -1}
case $folder in
/*) ;;
*) folder=${BUILD_WORKING_DIRECTORY:-$PWD}/$folder ;;
esac

# Only a bundle is ever overwritten.
if [ -e "$folder" ] && [ ! -e "$folder/mutants.sh" ]; then
    printf 'mutant_bundle: %s is there and is no bundle\n' "$folder" >&2
    exit 1
fi
rm -rf "$folder"
mkdir -p "$folder"
cp -L tests/streams/mutants.sh "$folder/"
{
    printf '#!/bin/bash\ncd "${0%%/*}" || exit 1\nexec ./mutants.sh \\\n'
    for word in "${@:1:$#-1}"; do
        option=
        [[ $word != --* ]] || { option=${word%%=*}= word=${word#*=}; }
        program=${word%%=*}
        strip -o "$folder/${program##*/}" "$program"
        printf "    '%s./%s' \\\\\n" "$option" "${word##*tests/streams/}"
    done
    echo
} >"$folder/run.sh"
chmod 755 "$folder"/*
printf 'mutant_bundle: %s, %d KiB\n' "$folder" \
    "$(du -sk "$folder" | cut -f1)"
